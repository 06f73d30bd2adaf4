package socket

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/lanyard-k8s/lanyard/api/jobs"
)

// call is one request, who makes it, and what became of it.
type call struct {
	uid     uint32
	subject string
	op      operation
	job     string
	outcome outcome
	detail  string // for the log
	bounded bool   // it is refused for there being too many, of which there may be very many
}

// handler answers a call; a nil error means that it has written its answer.
type handler func(w http.ResponseWriter, r *http.Request, c *call) error

func (d *Desk) routes() *http.ServeMux {
	mux := http.NewServeMux()
	for pattern, h := range map[string]struct {
		op     operation
		handle handler
	}{
		"POST " + jobs.PathJobs: {opSubmit, d.submit},
		"GET " + jobs.PathJobs:  {opList, d.list},
		"GET " + jobs.PathLogs:  {opLogs, d.logs},
		"POST " + jobs.PathStop: {opStop, d.stop},
		"GET " + jobs.PathWait:  {opWait, d.wait},
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { d.answer(w, r, h.op, h.handle) })
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		d.answer(w, r, opUnknown, func(http.ResponseWriter, *http.Request, *call) error { return errNoOperation })
	})
	return mux
}

var errNoOperation = errors.New("there is nothing at this path")

// serve counts what is under way, and answers a panic.
func (d *Desk) serve(w http.ResponseWriter, r *http.Request) {
	d.o.Metrics.open.Inc()
	defer d.o.Metrics.open.Dec()
	defer func() {
		if what := recover(); what != nil {
			d.o.Log.Error(nil, "a user's request panicked", "type", fmt.Sprintf("%T", what))
			write(w, http.StatusInternalServerError, jobs.Failure{Code: jobs.Failed, Message: "the request failed"})
		}
	}()
	d.mux.ServeHTTP(w, r)
}

// answer finds out who asks before anything of the request is looked at, and writes one audit line; of refusals by a bound, one for a user
// and second.
func (d *Desk) answer(w http.ResponseWriter, r *http.Request, op operation, h handler) {
	c := &call{op: op, job: r.PathValue("id")}
	err := d.identify(r, c)
	if err == nil {
		err = h(w, r, c)
	}
	if err != nil {
		d.fail(w, r, c, err)
	} else if c.outcome == "" {
		c.outcome = outcomeDone
	}
	d.o.Metrics.requests.WithLabelValues(string(c.op), string(c.outcome)).Inc()
	if c.bounded {
		unsaid, ok := d.rates.tell(c.uid)
		if !ok {
			return
		}
		if unsaid > 0 {
			c.detail += fmt.Sprintf("; %d more were refused since the last such line", unsaid)
		}
	}
	d.audit.Info("job", "operation", string(c.op), "outcome", string(c.outcome), "uid", c.uid, "subject", c.subject, "job", short(c.job), "cause", short(c.detail))
}

// lineAtMost is how much of what a user wrote gets into a line of the log; the longest name of a job has 191 bytes.
const lineAtMost = 300

func short(s string) string {
	if len(s) > lineAtMost {
		return strings.ToValidUTF8(s[:lineAtMost], "") + "..."
	}
	return s
}

// identify is who asks, by the connection alone.
func (d *Desk) identify(r *http.Request, c *call) error {
	from, ok := r.Context().Value(callerKey{}).(*conn)
	if !ok {
		return errors.New("a request did not come by the socket")
	}
	c.uid = from.uid
	switch {
	case !d.rates.take(from.uid): // before anybody is looked up
		c.bounded = true
		return refusal{outcomeTooMany, "too many requests to the submitters' socket; come again more slowly"}
	case from.over:
		c.bounded = true
		return refusal{outcomeTooMany, "too many connections to the submitters' socket; close some, or come again"}
	}
	subject, no := d.o.Submitters.of(from.uid)
	if no.why != "" {
		return no
	}
	c.subject = subject
	return nil
}

func (r refusal) Error() string { return r.text }

func write(w http.ResponseWriter, status int, body any) {
	text, err := json.Marshal(body)
	if err != nil {
		status, text = http.StatusInternalServerError, []byte(`{"code":"failed","message":"the answer cannot be written"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n')) // whoever asked may be gone
}
