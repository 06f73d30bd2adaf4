package dockerjob

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// What a submission came to besides being started.
const (
	outcomeStarted = "started"
	outcomeOther   = "aborted" // the submitter did not wait, or the backend was stopping
)

// outcomes are the errors that have a label of their own.
func outcomes() map[string]error {
	return map[string]error{
		"exists": ErrExists, "too_many": ErrTooMany, "no_image": ErrNoImage, "image": ErrImage, "submitter": ErrSubmitter, "start_failed": ErrStart,
		"engine": ErrEngine, "store": ErrStore, "foreign_volume": ErrForeignVolume, "unreachable": ErrUnreachable,
	}
}

const outcomeInvalid = "invalid"

// What a comparison of containers and rows came to.
const (
	comparedOK     = "ok"
	comparedEngine = "engine"
	comparedStore  = "store"
	comparedPartly = "partly" // the Engine says nothing about some container
)

// What is cleaned up that nobody had cleaned up in its time.
const (
	leftRow       = "row"
	leftContainer = "container"
	leftVolume    = "volume"
)

// Metrics are the backend's series. No label carries a job, a person or an image.
type Metrics struct {
	submissions *prometheus.CounterVec
	started     prometheus.Histogram
	running     prometheus.Gauge
	ended       *prometheus.CounterVec
	compared    *prometheus.CounterVec
	left        *prometheus.CounterVec
	unknown     prometheus.Counter
	engine      prometheus.Gauge
}

// NewMetrics registers the backend's series.
func NewMetrics(reg prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		submissions: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "lanyard_dockerjob_submissions_total",
			Help: "Jobs submitted to the Docker backend, by what came of it."}, []string{"outcome"}),
		started: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "lanyard_dockerjob_start_duration_seconds",
			Help: "How long it took from a submission to its container running.", Buckets: []float64{.1, .25, .5, 1, 2.5, 5, 10, 30, 60}}),
		running: prometheus.NewGauge(prometheus.GaugeOpts{Name: "lanyard_dockerjob_running", Help: "Jobs that are starting or running."}),
		ended:   prometheus.NewCounterVec(prometheus.CounterOpts{Name: "lanyard_dockerjob_ended_total", Help: "Jobs that ended, by how."}, []string{"end"}),
		compared: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "lanyard_dockerjob_reconciles_total",
			Help: "Comparisons of the Engine's containers with the rows, by what kept them from being finished."}, []string{"outcome"}),
		left: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "lanyard_dockerjob_leftovers_total",
			Help: "What such a comparison had to revoke or remove."}, []string{"kind"}),
		unknown: prometheus.NewCounter(prometheus.CounterOpts{Name: "lanyard_dockerjob_rows_unknown_total",
			Help: "Rows that such a comparison left as they were, since the Engine or the database did not answer about this one."}),
		engine: prometheus.NewGauge(prometheus.GaugeOpts{Name: "lanyard_dockerjob_engine_up", Help: "1 while the Docker Engine answers, else 0."}),
	}
	for _, c := range []prometheus.Collector{m.submissions, m.started, m.running, m.ended, m.compared, m.left, m.unknown, m.engine} {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	for name := range outcomes() {
		m.submissions.WithLabelValues(name)
	}
	for _, name := range []string{outcomeStarted, outcomeOther, outcomeInvalid} {
		m.submissions.WithLabelValues(name)
	}
	for _, end := range Ends() {
		m.ended.WithLabelValues(end)
	}
	for _, o := range []string{comparedOK, comparedEngine, comparedStore, comparedPartly} {
		m.compared.WithLabelValues(o)
	}
	for _, k := range []string{leftRow, leftContainer, leftVolume} {
		m.left.WithLabelValues(k)
	}
	return m, nil
}

// Ends lists every way in which a job can end.
func Ends() []string {
	return []string{EndExited, EndStopped, EndFailed, EndRemoved, EndRevoked, EndOutOfMemory}
}

// submitted counts a submission.
func (m *Metrics) submitted(err error, took time.Duration) {
	outcome := outcomeOther
	var invalid *InvalidError
	switch {
	case err == nil:
		outcome = outcomeStarted
		m.started.Observe(took.Seconds())
	case errors.As(err, &invalid):
		outcome = outcomeInvalid
	default:
		for name, kind := range outcomes() {
			if errors.Is(err, kind) {
				outcome = name
			}
		}
	}
	m.submissions.WithLabelValues(outcome).Inc()
}
