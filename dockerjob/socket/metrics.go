package socket

import "github.com/prometheus/client_golang/prometheus"

// operation is what a user asks for. Its text is a metric label.
type operation string

const (
	opSubmit  operation = "submit"
	opList    operation = "list"
	opLogs    operation = "logs"
	opStop    operation = "stop"
	opWait    operation = "wait"
	opUnknown operation = "unknown"
)

func operations() []operation {
	return []operation{opSubmit, opList, opLogs, opStop, opWait, opUnknown}
}

// outcome is what became of it. Its text is a metric label.
type outcome string

const (
	outcomeDone        outcome = "done"
	outcomeNobody      outcome = "nobody"
	outcomeRoot        outcome = "root_not_listed"
	outcomeUnlisted    outcome = "not_a_submitter"
	outcomeInvalid     outcome = "invalid"
	outcomeNotFound    outcome = "not_found"
	outcomeConflict    outcome = "conflict"
	outcomeTooMany     outcome = "too_many"
	outcomeUnavailable outcome = "unavailable"
	outcomeGone        outcome = "client_gone"
	outcomeFailed      outcome = "failed"
)

func outcomes() []outcome {
	return []outcome{
		outcomeDone, outcomeNobody, outcomeRoot, outcomeUnlisted, outcomeInvalid, outcomeNotFound, outcomeConflict,
		outcomeTooMany, outcomeUnavailable, outcomeGone, outcomeFailed,
	}
}

// Metrics are the socket's series. No label carries a user or a job.
type Metrics struct {
	requests *prometheus.CounterVec
	refused  prometheus.Counter
	open     prometheus.Gauge
}

// NewMetrics registers the series, each value of each label from the start.
func NewMetrics(reg prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "lanyard_submit_requests_total", Help: "Requests of users on the submitters' socket, by operation and outcome.",
		}, []string{"operation", "outcome"}),
		refused: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "lanyard_submit_connections_refused_total", Help: "Connections to the submitters' socket that were closed unread: over a bound, with as many told so already.",
		}),
		open: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "lanyard_submit_requests_open", Help: "Requests on the submitters' socket that are under way, streams of output among them.",
		}),
	}
	for _, c := range []prometheus.Collector{m.requests, m.refused, m.open} {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	for _, op := range operations() {
		for _, o := range outcomes() {
			m.requests.WithLabelValues(string(op), string(o))
		}
	}
	return m, nil
}
