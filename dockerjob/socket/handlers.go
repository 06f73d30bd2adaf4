package socket

import (
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/lanyard-k8s/lanyard/api/jobs"
	"github.com/lanyard-k8s/lanyard/dockerjob"
	"github.com/lanyard-k8s/lanyard/dockerjob/jobspec"
)

// requestAtMost bounds a submission; the environment is the long part of it.
const requestAtMost = 512 << 10

// submit answers POST PathJobs.
func (d *Desk) submit(w http.ResponseWriter, r *http.Request, c *call) error {
	q, err := read(w, r)
	if err != nil {
		return err
	}
	if q.TooMuch() { // many may wait for their turn, and their memory with them
		return &dockerjob.InvalidError{Faults: jobspec.Validate(q, jobspec.Limits{})}
	}
	leave, err := d.starts.enter(r.Context(), c.uid)
	if err != nil {
		return err
	}
	defer leave()
	job, err := d.o.Jobs.Submit(r.Context(), c.subject, q)
	if err != nil {
		return err
	}
	c.job = job.ID
	write(w, http.StatusCreated, job)
	return nil
}

// read reads a submission strictly: a member that nobody knows would be dropped in silence, and the job run without what it asks.
func read(w http.ResponseWriter, r *http.Request) (dockerjob.Spec, error) {
	var q dockerjob.Spec
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "application/json" {
		return q, fault("", "the body must be of type application/json")
	}
	clock := http.NewResponseController(w)
	_ = clock.SetReadDeadline(time.Now().Add(bodyTimeout))
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, requestAtMost))
	_ = clock.SetReadDeadline(time.Time{})
	var long *http.MaxBytesError
	switch {
	case errors.As(err, &long):
		return q, fault("", "the submission is longer than 512 KiB")
	case err != nil:
		return q, fault("", "the body cannot be read")
	}
	if err := json.Unmarshal(raw, &q, json.RejectUnknownMembers(true), json.WithUnmarshalers(json.UnmarshalFunc(amount))); err != nil {
		var semantic *json.SemanticError
		if errors.As(err, &semantic) {
			return q, fault(string(semantic.JSONPointer), "is not what a submission has there; does the command's version fit the exchange's?")
		}
		return q, fault("", "the body is not well-formed JSON") // the error itself may quote a value
	}
	return q, nil
}

// amount reads an amount, a string or a number. Its own method must not: it never ends on some exponents.
func amount(raw []byte, into *resource.Quantity) error {
	if string(raw) == "null" {
		*into = resource.Quantity{}
		return nil
	}
	text := string(raw)
	if raw[0] == '"' {
		if err := json.Unmarshal(raw, &text); err != nil {
			return err
		}
	}
	q, err := jobspec.ParseAmount(text)
	*into = q
	return err
}

// malformed is a request that is no submission at all.
type malformed struct{ fault jobs.Fault }

func (m malformed) Error() string { return m.fault.Message }

func fault(field, message string) error { return malformed{jobs.Fault{Field: field, Message: message}} }

// list answers GET PathJobs.
func (d *Desk) list(w http.ResponseWriter, r *http.Request, c *call) error {
	found, err := d.o.Jobs.List(r.Context(), c.subject)
	if err != nil {
		return err
	}
	if err := d.o.Jobs.Ready(); err != nil && len(found) == 0 {
		return err // there may be some that are not known yet
	}
	write(w, http.StatusOK, jobs.List{Jobs: found})
	return nil
}

// stop answers POST PathStop.
func (d *Desk) stop(w http.ResponseWriter, r *http.Request, c *call) error {
	// Once begun it is finished, though the user goes away.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), stopTimeout)
	defer cancel()
	job, err := d.o.Jobs.Stop(ctx, c.subject, c.job, stopGrace)
	if err != nil {
		return err
	}
	write(w, http.StatusOK, job)
	return nil
}

// wait answers GET PathWait.
func (d *Desk) wait(w http.ResponseWriter, r *http.Request, c *call) error {
	ctx, cancel := d.until(r)
	defer cancel()
	job, err := d.o.Jobs.Wait(ctx, c.subject, c.job)
	if err != nil {
		return d.interrupted(r, err)
	}
	write(w, http.StatusOK, job)
	return nil
}

// until is the request's context, which ends as well when the process is told to stop.
func (d *Desk) until(r *http.Request) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(r.Context())
	stop := context.AfterFunc(d.closing, cancel)
	return ctx, func() { stop(); cancel() }
}

// interrupted says that the process is being stopped, if that is why a long answer ended: the job goes on, and so may the user, with
// the next process.
func (d *Desk) interrupted(r *http.Request, err error) error {
	if err != nil && d.closing.Err() != nil && r.Context().Err() == nil {
		return dockerjob.ErrClosed
	}
	return err
}

// logs answers GET PathLogs.
func (d *Desk) logs(w http.ResponseWriter, r *http.Request, c *call) error {
	q := r.URL.Query()
	skipOut, err := skip(q.Get(jobs.ParamSkipOut))
	skipErr, err2 := skip(q.Get(jobs.ParamSkipErr))
	tail, err3 := lines(q.Get(jobs.ParamTail))
	leave := q.Get(jobs.ParamLeave)
	if err != nil || err2 != nil || err3 != nil || (tail > 0 && skipOut+skipErr > 0) || (leave != "" && leave != jobs.LeaveStops) {
		return fault("", "a parameter of the request is not well formed")
	}
	ctx, cancel := d.until(r)
	defer cancel()
	out := newFrames(w, skipOut, skipErr)
	o := dockerjob.LogOptions{Follow: q.Get(jobs.ParamFollow) == "true", Tail: tail}
	err = d.interrupted(r, d.o.Jobs.Logs(ctx, c.subject, c.job, o, out.to(jobs.Stdout), out.to(jobs.Stderr)))
	gone := r.Context().Err() != nil && d.closing.Err() == nil
	if gone && leave == jobs.LeaveStops && !errors.Is(err, dockerjob.ErrNotFound) {
		c.detail = "the user has left, and wants the job stopped then"
		if err := d.leaveStops(r, c); err != nil {
			return err
		}
	}
	switch {
	case gone:
		c.outcome = outcomeGone
		return nil
	case err != nil && !out.begun():
		return err
	default:
		return d.end(out, c, err)
	}
}

// leaveStops stops the job of a user who has gone.
func (d *Desk) leaveStops(r *http.Request, c *call) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), stopTimeout)
	defer cancel()
	if _, err := d.o.Jobs.Stop(ctx, c.subject, c.job, stopGrace); err != nil && !errors.Is(err, dockerjob.ErrNotFound) {
		return err
	}
	return nil
}

// end writes the last frame: nothing, or why there is no more.
func (d *Desk) end(out *frames, c *call, err error) error {
	var payload []byte
	if err != nil {
		c.outcome, c.detail = outcomeUnavailable, err.Error()
		f := jobs.Failure{Code: jobs.Unavailable, Message: "the output ends here, and the job goes on"}
		if payload, err = json.Marshal(f); err != nil {
			return err
		}
	}
	_ = out.write(jobs.End, payload) // whoever reads may be gone
	return nil
}

func skip(text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(text, 10, 63)
	return int64(n), err
}

// lines is how many lines are wanted; 0 is all.
func lines(text string) (int, error) {
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseUint(text, 10, 31)
	if err == nil && n == 0 {
		err = strconv.ErrRange
	}
	return int(n), err
}
