package socket

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/lanyard-k8s/lanyard/api/jobs"
	"github.com/lanyard-k8s/lanyard/dockerjob"
)

// answers are what errors of the backend are to users. Of an error that is not here the user is told nothing: its text may hold
// anything.
func answers() []struct {
	err     error
	outcome outcome
	status  int
	code    jobs.Code
	// whole says that the error's own text is for the user; else the sentinel's is.
	whole bool
} {
	return []struct {
		err     error
		outcome outcome
		status  int
		code    jobs.Code
		whole   bool
	}{
		{dockerjob.ErrNotFound, outcomeNotFound, http.StatusNotFound, jobs.NotFound, false},
		{dockerjob.ErrAmbiguous, outcomeConflict, http.StatusConflict, jobs.Conflict, false},
		{dockerjob.ErrExists, outcomeConflict, http.StatusConflict, jobs.Conflict, false},
		{dockerjob.ErrForeignVolume, outcomeConflict, http.StatusConflict, jobs.Conflict, false},
		{dockerjob.ErrTooMany, outcomeTooMany, http.StatusTooManyRequests, jobs.TooMany, false},
		{dockerjob.ErrNoImage, outcomeInvalid, http.StatusBadRequest, jobs.Invalid, false},
		{dockerjob.ErrImage, outcomeInvalid, http.StatusBadRequest, jobs.Invalid, true},
		{dockerjob.ErrStart, outcomeInvalid, http.StatusBadRequest, jobs.Invalid, true},
		{dockerjob.ErrSubmitter, outcomeUnlisted, http.StatusForbidden, jobs.Forbidden, false},
		{dockerjob.ErrUnreachable, outcomeUnavailable, http.StatusServiceUnavailable, jobs.Unavailable, true},
		{dockerjob.ErrClosed, outcomeUnavailable, http.StatusServiceUnavailable, jobs.Unavailable, false},
		{dockerjob.ErrStore, outcomeUnavailable, http.StatusServiceUnavailable, jobs.Unavailable, false},
		{dockerjob.ErrInterrupted, outcomeUnavailable, http.StatusServiceUnavailable, jobs.Unavailable, false},
		{dockerjob.ErrEngine, outcomeUnavailable, http.StatusServiceUnavailable, jobs.Unavailable, false},
		{context.DeadlineExceeded, outcomeUnavailable, http.StatusServiceUnavailable, jobs.Unavailable, false},
		{errNoOperation, outcomeNotFound, http.StatusNotFound, jobs.NotFound, false},
	}
}

// fail writes the answer to an error, and notes its outcome. What the user is not told goes to the log.
func (d *Desk) fail(w http.ResponseWriter, r *http.Request, c *call, err error) {
	if r.Context().Err() != nil && errors.Is(err, context.Canceled) {
		c.outcome = outcomeGone
		// Nobody reads this, but whoever closed the connection's other half alone, to call the request off and learn what came of it.
		write(w, http.StatusServiceUnavailable, jobs.Failure{Code: jobs.Unavailable, Message: "the request was called off, and nothing is left of it"})
		return
	}
	if away := d.o.Jobs.Ready(); away != nil && errors.Is(err, dockerjob.ErrNotFound) {
		err = away // after a start, jobs that run are not known at once: nobody is told that there is none
	}
	status, f := d.judge(c, err)
	switch {
	case status == http.StatusServiceUnavailable, status == http.StatusTooManyRequests:
		w.Header().Set("Retry-After", "2")
	case status == http.StatusInternalServerError:
		d.o.Log.Error(err, "a user's request came to nothing", "operation", string(c.op))
	}
	if c.subject == "" { // whoever submits nothing holds no connection either
		w.Header().Set("Connection", "close")
	}
	write(w, status, f)
}

// judge says what an error means.
func (d *Desk) judge(c *call, err error) (int, jobs.Failure) {
	var no refusal
	var bad malformed
	var invalid *dockerjob.InvalidError
	c.detail = dockerjob.Cause(err)
	switch {
	case errors.As(err, &no) && no.why == outcomeTooMany:
		c.outcome = no.why
		return http.StatusTooManyRequests, jobs.Failure{Code: jobs.TooMany, Message: no.text}
	case errors.As(err, &no):
		c.outcome = no.why
		return http.StatusForbidden, jobs.Failure{Code: jobs.Forbidden, Message: no.text}
	case errors.As(err, &bad):
		c.outcome = outcomeInvalid
		return http.StatusBadRequest, jobs.Failure{Code: jobs.Invalid, Message: bad.Error(), Faults: []jobs.Fault{bad.fault}}
	case errors.As(err, &invalid):
		c.outcome = outcomeInvalid
		found := faults(invalid)
		c.detail = ""
		for _, f := range found { // the log is told where, and nothing of what the user wrote there
			if c.detail = strings.TrimSpace(c.detail + " " + f.Field); len(c.detail) > lineAtMost {
				break
			}
		}
		return http.StatusBadRequest, jobs.Failure{Code: jobs.Invalid, Message: "the job is refused", Faults: found}
	}
	for _, a := range answers() {
		if errors.Is(err, a.err) {
			c.outcome = a.outcome
			text := a.err.Error()
			if a.whole {
				text = strings.ReplaceAll(err.Error(), "\n", "; ")
			}
			return a.status, jobs.Failure{Code: a.code, Message: text}
		}
	}
	c.outcome = outcomeFailed
	return http.StatusInternalServerError, jobs.Failure{Code: jobs.Failed, Message: "the request failed; the exchange's log says why"}
}

// faults are the backend's, by field. Their texts hold no value of a variable.
func faults(invalid *dockerjob.InvalidError) []jobs.Fault {
	var found []jobs.Fault
	for _, f := range invalid.Faults {
		text := f.ErrorBody()
		if f.Detail != "" {
			text = f.Detail
		}
		found = append(found, jobs.Fault{Field: f.Field, Message: text})
	}
	return found
}
