package webhook

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lanyard-k8s/lanyard/mutate"
	"github.com/lanyard-k8s/lanyard/mutate/violation"
)

// The front desk's own outcomes, beside those of package mutate, in the decision label of requests_total.
const (
	outcomeMalformed  mutate.Outcome = "malformed"  // could not be read
	outcomeUnexpected mutate.Outcome = "unexpected" // nothing that our configuration sends to this path
	outcomeOverloaded mutate.Outcome = "overloaded" // answered 429
	outcomePanicked   mutate.Outcome = "panicked"   // a fault in the program
)

// The stages of decode_errors_total.
const (
	stageRequest = "request" // method, content type
	stageBody    = "body"    // too large, cut short
	stageReview  = "review"  // not an AdmissionReview
	stageObject  = "object"  // not an object that the rules can read
)

// other stands for every resource or operation that is not one of ours: a review can say anything, and a label may not.
const other = "other"

// Metrics are the front desk's series. All that can be named beforehand exist from the start with the value zero.
type Metrics struct {
	requests   *prometheus.CounterVec
	duration   *prometheus.HistogramVec
	violations *prometheus.CounterVec
	injections *prometheus.CounterVec
	bytes      prometheus.Histogram
	inFlight   prometheus.Gauge
	decode     *prometheus.CounterVec
	notAfter   prometheus.Gauge
	open       prometheus.Gauge
	turnedAway prometheus.Counter
}

// space and desk start every name: lanyard_admission_.
const (
	space = "lanyard"
	desk  = "admission"
)

// NewMetrics registers the series.
func NewMetrics(reg prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: space, Subsystem: desk, Name: "requests_total",
			Help: "Admission requests by webhook path, resource, operation and what was decided."},
			[]string{"hook", "resource", "operation", "decision", "dry_run"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: space, Subsystem: desk, Name: "request_duration_seconds",
			Help: "Time from the request's headers to the last byte of the answer.", Buckets: durationBuckets()}, []string{"hook"}),
		violations: prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: space, Subsystem: desk, Name: "violations_total",
			Help: "Broken rules by reason, and whether they refused (enforce) or only warned (audit)."}, []string{"reason", "mode"}),
		injections: prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: space, Subsystem: desk, Name: "injections_total",
			Help: "Pods that a role's token was added to, was already in, or was refused to."}, []string{"role", "result"}),
		bytes: prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: space, Subsystem: desk, Name: "request_bytes",
			Help: "Size of request bodies in bytes.", Buckets: prometheus.ExponentialBuckets(1<<10, 4, 7)}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{Namespace: space, Subsystem: desk, Name: "in_flight",
			Help: "Requests that are being answered."}),
		decode: prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: space, Subsystem: desk, Name: "decode_errors_total",
			Help: "Requests that could not be read, by how far reading got."}, []string{"stage"}),
		notAfter: prometheus.NewGauge(prometheus.GaugeOpts{Namespace: space, Subsystem: desk, Name: "tls_cert_not_after_seconds",
			Help: "When the serving certificate ends, in seconds since the epoch."}),
		open: prometheus.NewGauge(prometheus.GaugeOpts{Namespace: space, Subsystem: desk, Name: "connections",
			Help: "Connections that are open."}),
		turnedAway: prometheus.NewCounter(prometheus.CounterOpts{Namespace: space, Subsystem: desk, Name: "connections_refused_total",
			Help: "Connections that were closed at once because there were too many, in all or from one address."}),
	}
	for _, c := range []prometheus.Collector{m.requests, m.duration, m.violations, m.injections, m.bytes, m.inFlight, m.decode, m.notAfter, m.open, m.turnedAway} {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	m.touch()
	return m, nil
}

// CertificateLoaded records the end of the serving certificate's life; it fits certs.Options.OnLoad.
func (m *Metrics) CertificateLoaded(notAfter time.Time) { m.notAfter.Set(float64(notAfter.Unix())) }

// durationBuckets reach from 100 us, where answers usually are, to 1 s.
func durationBuckets() []float64 {
	return []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1}
}

func outcomes(h hook) []mutate.Outcome {
	common := []mutate.Outcome{mutate.Audited, mutate.Denied, mutate.Skipped, outcomeMalformed, outcomeUnexpected, outcomeOverloaded, outcomePanicked}
	if h.mutating {
		return append(common, mutate.Injected, mutate.Already, mutate.Stamped)
	}
	return append(common, mutate.Allowed)
}

func (m *Metrics) touch() {
	for _, h := range hooks() {
		m.duration.WithLabelValues(h.name)
		for _, what := range touched(h) {
			for _, o := range outcomes(h) {
				m.requests.WithLabelValues(h.name, what.resource, what.operation, string(o), "false")
				m.requests.WithLabelValues(h.name, what.resource, what.operation, string(o), "true")
			}
		}
	}
	for _, r := range violation.Reasons() {
		m.violations.WithLabelValues(string(r), string(mutate.Enforce))
		if r.Loosened() {
			m.violations.WithLabelValues(string(r), string(mutate.Audit))
		}
	}
	for _, role := range []mutate.Role{mutate.Publisher, mutate.Job} {
		for _, o := range []mutate.Outcome{mutate.Injected, mutate.Already, mutate.Audited, mutate.Denied} {
			m.injections.WithLabelValues(string(role), string(o))
		}
	}
	for _, s := range []string{stageRequest, stageBody, stageReview, stageObject} {
		m.decode.WithLabelValues(s)
	}
}

type target struct{ resource, operation string }

// touched are the requests that a hook is registered for whatever the configuration; series of other kinds appear with
// their first request.
func touched(h hook) []target {
	pods := target{podResource, string(mutate.Create)}
	switch {
	case h.entry == mutate.EntryTemplate:
		return []target{{"jobs", "CREATE"}, {"jobs", "UPDATE"}, {"cronjobs", "CREATE"}, {"cronjobs", "UPDATE"}}
	case h.mutating && h.entry == mutate.EntryJob:
		return []target{pods, {"jobs", "CREATE"}, {"jobs", "UPDATE"}, {"cronjobs", "CREATE"}, {"cronjobs", "UPDATE"}}
	case h.mutating:
		return []target{pods}
	default:
		return []target{pods, {podResource + "/" + ephemeral, string(mutate.Update)}}
	}
}
