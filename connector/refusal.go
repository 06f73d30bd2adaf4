package connector

import (
	"sync/atomic"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"

	"github.com/lanyard-k8s/lanyard/connector/nodebinding"
	"github.com/lanyard-k8s/lanyard/internal/obs"
	"github.com/lanyard-k8s/lanyard/internal/tokenreview"
)

// How many lines about refusals are written: some at once for each reason, then one a second. What is left out is counted
// and told with the next line.
const (
	refusalsPerSecond = 1
	refusalsAtOnce    = 10
)

// refusals writes lines about violations, a bounded number of them for each reason.
type refusals struct {
	log    logr.Logger
	quotas map[nodebinding.Reason]*quota
}

type quota struct {
	limiter *rate.Limiter
	omitted atomic.Int64
}

func newRefusals(log logr.Logger) *refusals {
	r := &refusals{log: log, quotas: map[nodebinding.Reason]*quota{}}
	for _, reason := range nodebinding.Reasons() {
		r.quotas[reason] = &quota{limiter: rate.NewLimiter(refusalsPerSecond, refusalsAtOnce)}
	}
	return r
}

// note writes a line, or counts it. Strings of the caller's have been through shown, and the JSON encoder escapes the rest.
func (r *refusals) note(v Violation, code nodebinding.Code, cause error) {
	q := r.quotas[v.Reason]
	if q == nil {
		return
	}
	if !q.limiter.Allow() {
		q.omitted.Add(1)
		return
	}
	fields := []any{
		"reason", v.Reason, obs.KeyCaller, v.Caller, "podUID", v.PodUID, "credentialID", v.Credential, "user", v.User,
		"named", v.Named, "letThrough", v.LetThrough, "code", code.String(), "omitted", q.omitted.Swap(0),
	}
	if noVerdict(v.Reason) {
		r.log.Error(cause, "token could not be reviewed", fields...)
		return
	}
	if cause != nil {
		fields = append(fields, "detail", cause.Error())
	}
	r.log.Info("batch violates node binding", fields...)
}

// noVerdict says whether a reason is about the review and not about the caller.
func noVerdict(r nodebinding.Reason) bool {
	switch tokenreview.Reason(r) {
	case tokenreview.ValidatorUnavailable, tokenreview.ValidatorTimeout, tokenreview.ValidatorError:
		return true
	default:
		return false
	}
}
