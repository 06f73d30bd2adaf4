package exchange

import (
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lanyard-k8s/lanyard/exchange/grant"
	"github.com/lanyard-k8s/lanyard/exchange/keys"
	"github.com/lanyard-k8s/lanyard/internal/places"
	"github.com/lanyard-k8s/lanyard/internal/tokenreview"
)

// The outcomes of a token request besides grant.Reasons.
const (
	outcomeGranted = "granted"
	outcomeMethod  = "method_not_allowed"
	outcomeGone    = "client_gone" // the client did not wait
	outcomeUnknown = "undecided"   // nobody gave a reason: a fault of ours
)

// How a wait for a judgement ended.
const (
	heldJudged = "judged"
	heldOver   = "over" // its time was over, the client gone or the process told to stop
	heldFull   = "full" // there was no seat
)

// verified stands where a reason would, when there is a verdict.
const verified = "verified"

// Metrics are the exchange's series. No label carries a pod, a node, a person or the text of an error, and every value of every label is
// there from the start, so that zero can be told from absent.
type Metrics struct {
	requests  *prometheus.CounterVec
	duration  *prometheus.HistogramVec
	held      *prometheus.CounterVec
	callouts  *prometheus.CounterVec
	admin     *prometheus.CounterVec
	dropped   prometheus.Counter
	panics    prometheus.Counter
	rotations *prometheus.CounterVec
	notAfter  prometheus.Gauge
	answers   *prometheus.CounterVec
	reviews   *prometheus.CounterVec
	reviewFor prometheus.Histogram
	turned    prometheus.Counter
}

func counters(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

func counter(name, help string) prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
}

// NewMetrics registers the exchange's series.
func NewMetrics(reg prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		requests: counters("lanyard_exchange_requests_total", "Token requests by what they came to: granted, or the one reason.", "outcome"),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "lanyard_exchange_duration_seconds", Help: "How long token requests took, waiting for a judgement included.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		}, []string{"granted"}),
		held:      counters("lanyard_exchange_held_total", "Token requests whose pod was not judged yet, by how the wait ended.", "outcome"),
		callouts:  counters("lanyard_exchange_callouts_total", "Gateways' questions by what they came to.", "outcome"),
		admin:     counters("lanyard_exchange_admin_total", "Uses of the admins' listener, by verb and outcome.", "verb", "outcome"),
		dropped:   counter("lanyard_exchange_attributes_dropped_total", "Groups and addresses of submitters that a token must not carry."),
		panics:    counter("lanyard_exchange_panics_total", "Requests that panicked and were answered with 500."),
		rotations: counters("lanyard_exchange_key_rotations_total", "Attempts of this replica to put a new signing key in place.", "outcome"),
		notAfter: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "lanyard_exchange_tls_cert_not_after_seconds", Help: "End of the serving certificate's life, in Unix seconds; 0 without one.",
		}),
		answers: counters("lanyard_exchange_token_answers_total", "Service account tokens by where the answer came from and what it was.", "source", "outcome"),
		turned:  counter("lanyard_exchange_connections_refused_total", "Connections that were closed at once because there were too many, in all or from one address."),
		reviews: counters("lanyard_exchange_reviews_total", "TokenReviews sent to the API server, by why and what came of them.", "cause", "outcome"),
		reviewFor: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "lanyard_exchange_review_duration_seconds", Help: "How long TokenReviews took.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2},
		}),
	}
	for _, c := range []prometheus.Collector{
		m.requests, m.duration, m.held, m.callouts, m.admin, m.dropped, m.panics, m.rotations, m.notAfter, m.answers, m.reviews, m.reviewFor, m.turned,
	} {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	m.touch()
	return m, nil
}

// Bound is a listener that closes the connections for which there is no place, and counts them.
func (m *Metrics) Bound(l net.Listener, b places.Bounds) net.Listener {
	return places.New(b, places.Of, nil, m.turned.Inc).Bound(l)
}

// Outcomes lists what the label "outcome" of lanyard_exchange_requests_total can be.
func Outcomes() []string {
	out := []string{outcomeGranted, outcomeMethod, outcomeGone, outcomeUnknown}
	for _, r := range grant.Reasons() {
		out = append(out, string(r))
	}
	return out
}

// touch makes every series that there can be.
func (m *Metrics) touch() {
	for _, o := range Outcomes() {
		m.requests.WithLabelValues(o)
	}
	for _, o := range []string{"true", "false"} {
		m.duration.WithLabelValues(o)
	}
	for _, o := range []string{heldJudged, heldOver, heldFull} {
		m.held.WithLabelValues(o)
	}
	for _, o := range Callouts() {
		m.callouts.WithLabelValues(string(o))
	}
	for _, v := range adminVerbs() {
		for _, o := range adminOutcomes() {
			m.admin.WithLabelValues(string(v), string(o))
		}
	}
	for _, o := range keys.Outcomes() {
		m.rotations.WithLabelValues(string(o))
	}
	for _, r := range append(tokenreview.Reasons(), "") {
		for _, s := range tokenreview.Sources() {
			m.answers.WithLabelValues(string(s), reviewOutcome(r))
		}
		for _, c := range tokenreview.Causes() {
			m.reviews.WithLabelValues(string(c), reviewOutcome(r))
		}
	}
}

// answered counts one token request, once.
func (m *Metrics) answered(a *asked, gone bool, took time.Duration) {
	m.requests.WithLabelValues(outcomeOf(a, gone)).Inc()
	granted := "false"
	if a.claims != nil {
		granted = "true"
	}
	m.duration.WithLabelValues(granted).Observe(took.Seconds())
}

// outcomeOf is the one word for a request.
func outcomeOf(a *asked, gone bool) string {
	switch {
	case a.claims != nil:
		return outcomeGranted
	case gone:
		return outcomeGone
	case a.refusal.Reason == "":
		return outcomeUnknown
	default:
		return string(a.refusal.Reason)
	}
}

func reviewOutcome(r tokenreview.Reason) string {
	if r == "" {
		return verified
	}
	return string(r)
}

// Answered implements tokenreview.Recorder.
func (m *Metrics) Answered(s tokenreview.Source, r tokenreview.Reason) {
	m.answers.WithLabelValues(string(s), reviewOutcome(r)).Inc()
}

// Reviewed implements tokenreview.Recorder.
func (m *Metrics) Reviewed(c tokenreview.Cause, r tokenreview.Reason, took time.Duration) {
	m.reviews.WithLabelValues(string(c), reviewOutcome(r)).Inc()
	m.reviewFor.Observe(took.Seconds())
}

// Rotated fits keys.Options.
func (m *Metrics) Rotated(o keys.Outcome) { m.rotations.WithLabelValues(string(o)).Inc() }

// CertificateLoaded fits certs.Options.OnLoad.
func (m *Metrics) CertificateLoaded(notAfter time.Time) { m.notAfter.Set(float64(notAfter.Unix())) }
