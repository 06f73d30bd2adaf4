package connector

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lanyard-k8s/lanyard/connector/nodebinding"
	"github.com/lanyard-k8s/lanyard/connector/sink"
	"github.com/lanyard-k8s/lanyard/connector/spool"
	"github.com/lanyard-k8s/lanyard/internal/tokenreview"
)

// touch makes every series that there can be.
func (m *Metrics) touch() {
	for _, s := range nodebinding.Scopes() {
		m.decisions.WithLabelValues(string(s))
	}
	for _, r := range nodebinding.Reasons() {
		m.violations.WithLabelValues(string(r))
	}
	for _, c := range nodebinding.Claims() {
		m.nodeClaims.WithLabelValues(string(c))
	}
	for _, o := range outcomes() {
		for _, s := range tokenreview.Sources() {
			m.answers.WithLabelValues(string(s), o)
		}
		for _, c := range tokenreview.Causes() {
			m.reviews.WithLabelValues(string(c), o)
		}
	}
	for _, c := range tokenreview.Causes() {
		m.reviewDuration.WithLabelValues(string(c))
	}
	for _, o := range []string{batchAccepted, batchRefused, batchInvalid, batchHeldBack} {
		m.batches.WithLabelValues(o)
	}
	for _, r := range spool.Reasons() {
		m.aside.WithLabelValues(string(r))
	}
	for _, o := range []string{eventAccepted, eventStamped, eventRefused} {
		m.events.WithLabelValues(o)
	}
}

// Sinks makes the series of the sinks that are in use.
func (m *Metrics) Sinks(names ...sink.Name) {
	for _, n := range names {
		m.deliveries.WithLabelValues(string(n), deliveryOK)
		for _, r := range sink.Reasons() {
			m.deliveries.WithLabelValues(string(n), string(r))
		}
		for _, o := range sink.Outcomes() {
			m.delivered.WithLabelValues(string(n), string(o))
		}
		m.queued.WithLabelValues(string(n))
		m.dropped.WithLabelValues(string(n))
	}
}

// outcomes are what can come of a token: a verdict, or a reason.
func outcomes() []string {
	out := []string{verified}
	for _, r := range tokenreview.Reasons() {
		out = append(out, string(r))
	}
	return out
}

func outcomeOf(r tokenreview.Reason) string {
	if r == "" {
		return verified
	}
	return string(r)
}

// hot are the counters that calls touch, looked up once.
type hot struct {
	decisions  map[nodebinding.Scope]prometheus.Counter
	violations map[nodebinding.Reason]prometheus.Counter
	claims     map[nodebinding.Claim]prometheus.Counter
	answers    map[answered]prometheus.Counter
	accepted   prometheus.Counter
	events     prometheus.Counter
	stamped    prometheus.Counter
}

// answered is the pair of labels of an answer.
type answered struct {
	source tokenreview.Source
	reason tokenreview.Reason
}

func newHot(m *Metrics) hot {
	h := hot{
		decisions: map[nodebinding.Scope]prometheus.Counter{}, violations: map[nodebinding.Reason]prometheus.Counter{},
		claims: map[nodebinding.Claim]prometheus.Counter{}, answers: map[answered]prometheus.Counter{},
		accepted: m.batches.WithLabelValues(batchAccepted), events: m.events.WithLabelValues(eventAccepted),
		stamped: m.events.WithLabelValues(eventStamped),
	}
	for _, s := range nodebinding.Scopes() {
		h.decisions[s] = m.decisions.WithLabelValues(string(s))
	}
	for _, r := range nodebinding.Reasons() {
		h.violations[r] = m.violations.WithLabelValues(string(r))
	}
	for _, c := range nodebinding.Claims() {
		h.claims[c] = m.nodeClaims.WithLabelValues(string(c))
	}
	for _, s := range tokenreview.Sources() {
		for _, r := range append(tokenreview.Reasons(), "") {
			h.answers[answered{s, r}] = m.answers.WithLabelValues(string(s), outcomeOf(r))
		}
	}
	return h
}

// Answered implements tokenreview.Recorder.
func (m *Metrics) Answered(s tokenreview.Source, r tokenreview.Reason) {
	if c := m.hot.answers[answered{s, r}]; c != nil {
		c.Inc()
	}
}

// Reviewed implements tokenreview.Recorder.
func (m *Metrics) Reviewed(c tokenreview.Cause, r tokenreview.Reason, took time.Duration) {
	m.reviews.WithLabelValues(string(c), outcomeOf(r)).Inc()
	m.reviewDuration.WithLabelValues(string(c)).Observe(took.Seconds())
}

// decided counts what the rule made of a batch of n events.
func (m *Metrics) decided(o nodebinding.Outcome, n int) {
	if o.Scope != "" {
		m.hot.decisions[o.Scope].Inc()
	}
	if o.Claim != "" {
		m.hot.claims[o.Claim].Inc()
	}
	for _, v := range [...]nodebinding.Reason{o.CallerViolation, o.BatchViolation} {
		if c := m.hot.violations[v]; c != nil {
			c.Inc()
		}
	}
	if o.Degraded {
		m.degraded.Inc()
	}
	if !o.Allowed() {
		m.batches.WithLabelValues(batchRefused).Inc()
		m.events.WithLabelValues(eventRefused).Add(float64(n))
	}
}

// accepted counts a batch of n events that was acknowledged.
func (m *Metrics) accepted(n, stamped int) {
	m.hot.accepted.Inc()
	m.hot.stamped.Add(float64(stamped))
	m.hot.events.Add(float64(n - stamped))
}

// Watch is what a watch of liveness tells about itself.
type Watch interface {
	Trusted(now time.Time) bool
	Age(now time.Time) time.Duration
}

// Gauges are what is asked when somebody scrapes. Nil members are left out.
type Gauges struct {
	Cached func() int  // verdicts remembered
	Down   func() bool // whether the API server is known to be down
	Ready  func() bool
	Pods   Watch
	Nodes  Watch
}

// Observe registers the gauges.
func (m *Metrics) Observe(reg prometheus.Registerer, g Gauges) error {
	ask := func(name, help string, labels prometheus.Labels, f func() float64) error {
		return reg.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: labels}, f))
	}
	var errs []error
	if g.Cached != nil {
		errs = append(errs, ask("lanyard_connector_cached_verdicts", "Verdicts that are remembered.", nil, func() float64 { return float64(g.Cached()) }))
	}
	if g.Down != nil {
		errs = append(errs, ask("lanyard_connector_api_server_down", "Whether the API server is known to be down: 1 or 0.", nil, func() float64 { return number(g.Down()) }))
	}
	if g.Ready != nil {
		errs = append(errs, ask("lanyard_connector_ready", "Whether the connector is ready: 1 or 0.", nil, func() float64 { return number(g.Ready()) }))
	}
	for name, w := range map[string]Watch{"pods": g.Pods, "nodes": g.Nodes} {
		if w == nil {
			continue
		}
		labels := prometheus.Labels{"watch": name}
		errs = append(errs,
			ask("lanyard_connector_watch_age_seconds", "How long a watch has been silent.", labels, func() float64 { return w.Age(time.Now()).Seconds() }),
			ask("lanyard_connector_watch_trusted", "Whether a watch is relied on: 1 or 0.", labels, func() float64 { return number(w.Trusted(time.Now())) }))
	}
	return errors.Join(errs...)
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
