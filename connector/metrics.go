package connector

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lanyard-k8s/lanyard/connector/sink"
)

// Metrics are the connector's series. The three whose names begin with platform_connector_auth_ are the seed's (section
// "Metrics"), the others ours. No label carries a node, a pod, a user or the text of an error, and every value of every
// label is there from the start, so that zero can be told from absent. The counters of the hot path are looked up once.
type Metrics struct {
	decisions  *prometheus.CounterVec
	violations *prometheus.CounterVec
	nodeClaims *prometheus.CounterVec

	answers        *prometheus.CounterVec
	reviews        *prometheus.CounterVec
	reviewDuration *prometheus.HistogramVec
	batches        *prometheus.CounterVec
	batchDuration  prometheus.Histogram
	events         *prometheus.CounterVec
	degraded       prometheus.Counter
	overrides      prometheus.Counter
	unknownMethods prometheus.Counter
	panics         prometheus.Counter
	connections    prometheus.Gauge
	turnedAway     prometheus.Counter
	rebinds        prometheus.Counter
	notAfter       prometheus.Gauge
	deliveries     *prometheus.CounterVec
	delivered      *prometheus.CounterVec
	queued         *prometheus.GaugeVec
	dropped        *prometheus.CounterVec
	aside          *prometheus.CounterVec
	torn           prometheus.Counter

	hot hot
}

// What became of a batch, by who decided it; the label "outcome" of lanyard_connector_batches_total.
const (
	batchAccepted = "accepted"
	batchRefused  = "refused"   // by the node-binding rule
	batchInvalid  = "invalid"   // by its idempotency key, or its message
	batchHeldBack = "held_back" // not ready, full, or a sink did not take it
)

// What became of an event; the label "outcome" of lanyard_connector_events_total.
const (
	eventAccepted = "accepted"
	eventStamped  = "stamped" // accepted, and its blank name filled in
	eventRefused  = "refused"
)

// verified stands where a reason would, when there is a verdict.
const verified = "verified"

func counter(name, help string) prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
}

func counters(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

func gauge(name, help string) prometheus.Gauge {
	return prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
}

// NewMetrics registers the connector's series.
func NewMetrics(reg prometheus.Registerer) (*Metrics, error) {
	m := newSeries()
	for _, c := range m.all() {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	m.touch()
	m.hot = newHot(m)
	return m, nil
}

func newSeries() *Metrics {
	return &Metrics{
		decisions:  counters("platform_connector_auth_decisions_total", "Batches by the scope that was granted.", "decision"),
		violations: counters("platform_connector_auth_violations_total", "Batches that violated the node-binding rule, by reason; refused in mode enforce, let through in mode audit.", "reason"),
		nodeClaims: counters("platform_connector_auth_node_claim_total", "Batches with a token, by whether it carries a node claim.", "result"),

		answers: counters("lanyard_connector_token_answers_total", "Batches with a token, by where the answer came from and what it was.", "source", "outcome"),
		reviews: counters("lanyard_connector_reviews_total", "TokenReviews sent to the API server, by why and what came of them.", "cause", "outcome"),
		reviewDuration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "lanyard_connector_review_duration_seconds", Help: "How long TokenReviews took.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2},
		}, []string{"cause"}),
		batches: counters("lanyard_connector_batches_total", "Batches by what became of them.", "outcome"),
		batchDuration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "lanyard_connector_batch_duration_seconds", Help: "How long batches took to be answered.",
			Buckets: []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2, 4},
		}),
		events:         counters("lanyard_connector_events_total", "Events by what became of their batch; a stamped one is accepted too and counted once.", "outcome"),
		degraded:       counter("lanyard_connector_degraded_batches_total", "Batches that were given a guessed node-local scope because the API server could not be reached (failOpenOnUnavailable)."),
		overrides:      counter("lanyard_connector_overrides_dropped_total", "Events whose quarantine or drain overrides were dropped because their caller is not verified (overridesNeedToken)."),
		unknownMethods: counter("lanyard_connector_unknown_methods_total", "Calls of methods that this connector does not have."),
		panics:         counter("lanyard_connector_panics_total", "Calls that panicked and were answered as Internal."),
		connections:    gauge("lanyard_connector_connections", "Connections that are open."),
		turnedAway:     counter("lanyard_connector_connections_refused_total", "Connections that were closed at once because there were too many."),
		rebinds:        counter("lanyard_connector_socket_replaced_total", "Times that the socket's path was found to lead elsewhere."),
		notAfter:       gauge("lanyard_connector_tls_cert_not_after_seconds", "End of the serving certificate's life, in Unix seconds; 0 without one."),
		deliveries:     counters("lanyard_connector_sink_deliveries_total", "Attempts to deliver a batch to a sink, by how they ended: ok, or the reason.", "sink", "outcome"),
		delivered:      counters("lanyard_connector_sink_events_total", "Events by what a sink made of them.", "sink", "outcome"),
		queued: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "lanyard_connector_sink_queue_depth", Help: "Batches that wait in memory for a sink that nobody waits for.",
		}, []string{"sink"}),
		dropped: counters("lanyard_connector_sink_batches_dropped_total", "Batches that a sink will not get: its queue was full, it never came back, or it refuses them.", "sink"),
		aside:   counters("lanyard_connector_spool_quarantined_total", "Records of the spool that were put aside, by why.", "reason"),
		torn:    counter("lanyard_connector_spool_torn_bytes_total", "Bytes at the ends of segments that a crash kept from being written whole; they were never acknowledged."),
	}
}

func (m *Metrics) all() []prometheus.Collector {
	return []prometheus.Collector{
		m.decisions, m.violations, m.nodeClaims, m.answers, m.reviews, m.reviewDuration, m.batches, m.batchDuration, m.events,
		m.degraded, m.overrides, m.unknownMethods, m.panics, m.connections, m.turnedAway, m.rebinds, m.notAfter,
		m.deliveries, m.delivered, m.queued, m.dropped, m.aside, m.torn,
	}
}

// CertificateLoaded records the end of the serving certificate's life; it fits certs.Options.OnLoad.
func (m *Metrics) CertificateLoaded(notAfter time.Time) { m.notAfter.Set(float64(notAfter.Unix())) }

// sinkDelivered counts one attempt to deliver.
func (m *Metrics) sinkDelivered(name sink.Name, r sink.Report, err error) {
	outcome := deliveryOK
	if e := sink.Classify(err); e != nil {
		outcome = string(e.Reason)
	}
	m.deliveries.WithLabelValues(string(name), outcome).Inc()
	for o, n := range r {
		m.delivered.WithLabelValues(string(name), string(o)).Add(float64(n))
	}
}

// deliveryOK is the outcome of a delivery without an error.
const deliveryOK = "ok"
