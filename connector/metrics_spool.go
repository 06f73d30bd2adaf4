package connector

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lanyard-k8s/lanyard/connector/sink"
	"github.com/lanyard-k8s/lanyard/connector/spool"
)

// SpoolHooks count what happens in the spool.
func (m *Metrics) SpoolHooks() spool.Hooks {
	return spool.Hooks{
		Attempted: func(a spool.Attempt) {
			var err error
			if a.Err != nil {
				err = a.Err
			}
			m.sinkDelivered(a.Sink, a.Report, err)
			if a.Err != nil && a.Err.Final {
				m.dropped.WithLabelValues(string(a.Sink)).Inc()
			}
		},
		Quarantined: func(r spool.Reason) { m.aside.WithLabelValues(string(r)).Inc() },
		Torn:        func(bytes int64) { m.torn.Add(float64(bytes)) },
	}
}

// ObserveSpool registers the gauges of the spool's size.
func (m *Metrics) ObserveSpool(reg prometheus.Registerer, stats func() spool.Stats, sinks ...sink.Name) error {
	m.Sinks(sinks...)
	ask := func(name, help string, labels prometheus.Labels, f func(spool.Stats) float64) error {
		return reg.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: labels}, func() float64 { return f(stats()) }))
	}
	errs := []error{
		ask("lanyard_connector_spool_bytes", "What the undelivered batches take of the spool's bound.", nil, func(s spool.Stats) float64 { return float64(s.Bytes) }),
		ask("lanyard_connector_spool_limit_bytes", "The spool's bound.", nil, func(s spool.Stats) float64 { return float64(s.Limit) }),
		ask("lanyard_connector_spool_segments", "The spool's files.", nil, func(s spool.Stats) float64 { return float64(s.Segments) }),
		ask("lanyard_connector_spool_quarantined", "Records that were put aside and wait for somebody to look at them.", nil, func(s spool.Stats) float64 { return float64(s.Aside) }),
		ask("lanyard_connector_spool_oldest_age_seconds", "How long the oldest undelivered batch has waited; 0 when there is none.", nil, func(s spool.Stats) float64 {
			if s.Oldest.IsZero() {
				return 0
			}
			return max(0, time.Since(s.Oldest).Seconds())
		}),
	}
	for _, name := range sinks {
		errs = append(errs, ask("lanyard_connector_spool_depth", "Batches in the spool that a sink has yet to get.", prometheus.Labels{"sink": string(name)},
			func(s spool.Stats) float64 { return float64(s.Depth[name]) }))
	}
	return errors.Join(errs...)
}
