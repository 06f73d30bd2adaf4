package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/lanyard-k8s/lanyard/webhook"
)

// metricsPage lists every series that the webhook registers. They all exist from the start, so a registry knows them.
func metricsPage(string) ([]byte, error) {
	reg := prometheus.NewRegistry()
	if _, err := webhook.NewMetrics(reg); err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	families, err := reg.Gather()
	if err != nil {
		return nil, fmt.Errorf("gather metrics: %w", err)
	}
	var b strings.Builder
	b.WriteString("# Metrics\n\n" + mark + "\n\nWhat the webhook serves on `/metrics`, besides the Go runtime's and the process's own. " +
		"No label holds a namespace or a name. [operations.md](../operations.md#metrics-and-alerts) says what to watch.\n\n")
	b.WriteString(row("metric", "type", "labels", "meaning") + row("---", "---", "---", "---"))
	for _, f := range families {
		b.WriteString(row("`"+f.GetName()+"`", strings.ToLower(f.GetType().String()), labelsOf(f), cell(f.GetHelp())))
	}
	b.WriteString("\n## Values of the labels\n\n" + row("label", "values that exist from the start") + row("---", "---"))
	for _, v := range labelValues(families) {
		b.WriteString(v)
	}
	return []byte(b.String()), nil
}

func labelsOf(f *dto.MetricFamily) string {
	var names []string
	for _, l := range f.GetMetric()[0].GetLabel() {
		names = append(names, "`"+l.GetName()+"`")
	}
	return strings.Join(names, ", ")
}

// labelValues lists every label's values over all metrics.
func labelValues(families []*dto.MetricFamily) []string {
	values := map[string][]string{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if v := "`" + l.GetValue() + "`"; !slices.Contains(values[l.GetName()], v) {
					values[l.GetName()] = append(values[l.GetName()], v)
				}
			}
		}
	}
	var rows []string
	for name, vs := range values {
		slices.Sort(vs)
		rows = append(rows, row("`"+name+"`", strings.Join(vs, ", ")))
	}
	slices.Sort(rows)
	return rows
}
