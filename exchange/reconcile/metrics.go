package reconcile

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/lanyard-k8s/lanyard/delegation"
	"github.com/lanyard-k8s/lanyard/exchange/provenance"
)

// What was judged; the label "object" of lanyard_exchange_judged_total.
const (
	podObject  = "pod"
	workObject = "work"
)

// Metrics are the reconciler's series. No label carries a name; every value of every label is there from the start.
type Metrics struct {
	verdicts *prometheus.CounterVec
	ended    *prometheus.CounterVec
	errors   prometheus.Counter
	policies *prometheus.GaugeVec
	epoch    prometheus.Gauge
	skew     prometheus.Gauge
	leader   prometheus.Gauge
	rows     prometheus.Gauge
	orphans  prometheus.Gauge
}

func gauge(name, help string) prometheus.Gauge {
	return prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
}

func gauges(name, help string, labels ...string) *prometheus.GaugeVec {
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
}

func counter(name, help string) prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
}

func counters(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

// NewMetrics registers the reconciler's series.
func NewMetrics(reg prometheus.Registerer) (*Metrics, error) {
	m := newSeries()
	for _, c := range []prometheus.Collector{m.verdicts, m.ended, m.errors, m.policies, m.epoch, m.skew, m.leader, m.rows, m.orphans} {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func newSeries() *Metrics {
	m := &Metrics{
		verdicts: counters("lanyard_exchange_judged_total", "Pods and job objects judged, by outcome and by reason.", "object", "outcome", "reason"),
		ended:    counters("lanyard_exchange_ended_total", "Rows and submissions ended by the reconciler, by reason.", "reason"),
		errors:   counter("lanyard_exchange_reconcile_errors_total", "Attempts of the reconciler that failed and are repeated."),
		policies: gauges("lanyard_exchange_policies", "1 for how the policies stand: in_order, rollout or drift.", "state"),
		epoch:    gauge("lanyard_exchange_guard_epoch_seconds", "The guard epoch: unconfirmed objects created before this time are refused."),
		skew:     gauge("lanyard_exchange_clock_skew_seconds", "Our clock less the API server's."),
		leader:   gauge("lanyard_exchange_leader", "1 while this replica reconciles."),
		rows:     gauge("lanyard_exchange_rows", "Pods whose rows live."),
		orphans:  gauge("lanyard_exchange_orphaned_submissions", "Open submissions of objects whose kind the API server does not define or jobKinds does not list; they end after an hour."),
	}
	m.touch()
	return m
}

// touch makes every series that there can be.
func (m *Metrics) touch() {
	for _, s := range States() {
		m.policies.WithLabelValues(string(s))
	}
	for _, r := range delegation.Reasons() {
		m.ended.WithLabelValues(string(r))
	}
	for _, object := range []string{podObject, workObject} {
		m.verdicts.WithLabelValues(object, string(provenance.Confirmed), "")
		for _, r := range provenance.Reasons() {
			for _, outcome := range provenance.OutcomesOf(r) {
				m.verdicts.WithLabelValues(object, string(outcome), string(r))
			}
		}
	}
}

func (m *Metrics) judged(object string, v provenance.Verdict) {
	m.verdicts.WithLabelValues(object, string(v.Outcome), string(v.Reason)).Inc()
}

func (m *Metrics) closed(why delegation.Reason) { m.ended.WithLabelValues(string(why)).Inc() }

// stands shows how the policies stand.
func (m *Metrics) stands(now standing) {
	for _, s := range States() {
		on := 0.0
		if s == now.state {
			on = 1
		}
		m.policies.WithLabelValues(string(s)).Set(on)
	}
	m.epoch.Set(float64(now.epoch.Unix()))
}
