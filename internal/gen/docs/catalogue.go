package main

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// catalogue is a registry that also knows the series without a value yet, such as those of sinks that only a configuration
// names.
type catalogue struct {
	*prometheus.Registry
	collectors []prometheus.Collector
}

// Register remembers the collector.
func (c *catalogue) Register(p prometheus.Collector) error {
	c.collectors = append(c.collectors, p)
	return c.Registry.Register(p)
}

// families are the gathered ones, and for every collector without a series one with its labels' names alone.
func (c *catalogue) families() ([]*dto.MetricFamily, error) {
	found, err := c.Gather()
	if err != nil {
		return nil, err
	}
	for _, p := range c.collectors {
		f, err := described(p)
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(found, func(g *dto.MetricFamily) bool { return g.GetName() == f.GetName() }) {
			found = append(found, f)
		}
	}
	slices.SortFunc(found, func(a, b *dto.MetricFamily) int { return cmp.Compare(a.GetName(), b.GetName()) })
	return found, nil
}

// description reads what prometheus prints of a metric, the one way to learn its name.
var description = regexp.MustCompile(`^Desc\{fqName: "([^"]+)", help: "([^"]*)", .*variableLabels: \{([^}]*)\}`)

func described(p prometheus.Collector) (*dto.MetricFamily, error) {
	descs := make(chan *prometheus.Desc, 1)
	p.Describe(descs)
	text := (<-descs).String()
	m := description.FindStringSubmatch(text)
	if m == nil {
		return nil, fmt.Errorf("%q is not the description that was expected", text)
	}
	metric := &dto.Metric{}
	for name := range strings.SplitSeq(m[3], ",") {
		if name != "" {
			metric.Label = append(metric.Label, &dto.LabelPair{Name: &name})
		}
	}
	typ := typeOf(p)
	return &dto.MetricFamily{Name: &m[1], Help: &m[2], Type: &typ, Metric: []*dto.Metric{metric}}, nil
}

func typeOf(p prometheus.Collector) dto.MetricType {
	switch p.(type) {
	case *prometheus.CounterVec:
		return dto.MetricType_COUNTER
	case *prometheus.GaugeVec:
		return dto.MetricType_GAUGE
	case *prometheus.HistogramVec:
		return dto.MetricType_HISTOGRAM
	default:
		return dto.MetricType_UNTYPED
	}
}
