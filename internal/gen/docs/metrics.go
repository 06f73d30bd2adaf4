package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/lanyard-k8s/lanyard/dockerjob"
	"github.com/lanyard-k8s/lanyard/dockerjob/socket"
	"github.com/lanyard-k8s/lanyard/internal/obs"
	"github.com/lanyard-k8s/lanyard/webhook"
)

// metricsPage lists every series of every program.
func metricsPage(string) ([]byte, error) {
	var b strings.Builder
	b.WriteString("# Metrics\n\n" + mark + "\n\nWhat the programs serve on `/metrics`, besides the Go runtime's and the process's own. " +
		"No label holds the name of a namespace or a pod. [operations.md](../operations.md#metrics-and-alerts) says what to watch.\n")
	for _, program := range []struct {
		title    string
		register func(prometheus.Registerer) error
	}{
		{"Every program", func(r prometheus.Registerer) error { _, err := obs.Refused(r); return err }},
		{"Webhook", func(r prometheus.Registerer) error { _, err := webhook.NewMetrics(r); return err }},
		{"Connector", connectorMetrics},
		{"Exchange", exchangeMetrics},
		{"Exchange with `--backend docker`, besides", dockerMetrics},
	} {
		reg := &catalogue{Registry: prometheus.NewRegistry()}
		if err := program.register(reg); err != nil {
			return nil, fmt.Errorf("register metrics: %w", err)
		}
		families, err := reg.families()
		if err != nil {
			return nil, fmt.Errorf("gather metrics: %w", err)
		}
		b.WriteString("\n## " + program.title + "\n\n")
		writeFamilies(&b, families)
	}
	return []byte(b.String()), nil
}

// dockerMetrics registers what jobs on one machine add.
func dockerMetrics(reg prometheus.Registerer) error {
	_, err := dockerjob.NewMetrics(reg)
	_, err2 := socket.NewMetrics(reg)
	return errors.Join(err, err2)
}

func writeFamilies(b *strings.Builder, families []*dto.MetricFamily) {
	b.WriteString(row("metric", "type", "labels", "meaning") + row("---", "---", "---", "---"))
	for _, f := range families {
		b.WriteString(row("`"+f.GetName()+"`", strings.ToLower(f.GetType().String()), labelsOf(f), cell(f.GetHelp())))
	}
	values := labelValues(families)
	if len(values) == 0 {
		return
	}
	b.WriteString("\n" + row("label", "values that exist from the start") + row("---", "---"))
	for _, v := range values {
		b.WriteString(v)
	}
}

func labelsOf(f *dto.MetricFamily) string {
	var names []string
	for _, l := range f.GetMetric()[0].GetLabel() {
		names = append(names, "`"+l.GetName()+"`")
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// labelValues lists every label's values over all metrics.
func labelValues(families []*dto.MetricFamily) []string {
	values := map[string][]string{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if v := "`" + l.GetValue() + "`"; l.GetValue() != "" && !slices.Contains(values[l.GetName()], v) {
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
