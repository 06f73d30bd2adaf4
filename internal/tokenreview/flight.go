package tokenreview

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/singleflight"
	authenticationv1 "k8s.io/api/authentication/v1"

	"github.com/lanyard-k8s/lanyard/internal/liveness"
)

// flightMargin is what a review leaves of AnswerIn for its callers to be answered in.
const flightMargin = 200 * time.Millisecond

// fly starts a review of a token, or joins the one under way. It runs under the Reviewer's own context: the caller that
// happened to be first may leave without harm to the others. A verdict reached after since, by a flight that landed just
// before, will do. Its value is a Verdict, its error an *Error.
func (r *Reviewer) fly(id key, token string, c claims, cause Cause, since time.Time) <-chan singleflight.Result {
	return r.flights.DoChan(string(id[:]), func() (value any, err error) {
		if !r.begin() {
			return Verdict{}, unavailable("shutting down")
		}
		defer r.flying.Done()
		defer func() {
			if p := recover(); p != nil { // its value may hold the token
				value, err = Verdict{}, &Error{Reason: ValidatorError, Detail: fmt.Sprintf("a panic of type %T during the review", p)}
			}
		}()
		if v, err, ok := r.landed(id, since); ok {
			return v, err
		}
		ctx, cancel := context.WithTimeout(r.ctx, max(r.options.AnswerIn-flightMargin, r.options.AnswerIn/2))
		defer cancel()
		return r.settle(ctx, id, token, c, cause)
	})
}

// begin counts a flight, unless the Reviewer is closed.
func (r *Reviewer) begin() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return false
	}
	r.flying.Add(1)
	return true
}

// landed is the result of a flight that ended between a caller's look into the caches and its own flight.
func (r *Reviewer) landed(id key, since time.Time) (Verdict, error, bool) {
	if e, ok := r.refused.GetIfPresent(id); ok {
		return Verdict{}, e, true
	}
	now := r.options.Clock.Now()
	if e, ok := r.known.get(id); ok && e.confirmed.After(since) && now.Before(e.verdict.Expiry) &&
		r.state(e.verdict.PodUID, now) != liveness.Dead {
		return e.verdict, nil, true
	}
	return Verdict{}, nil, false
}

// settle reviews a token, and remembers a verdict or a refusal. An outage is not remembered.
func (r *Reviewer) settle(ctx context.Context, id key, token string, c claims, cause Cause) (Verdict, error) {
	asked, took := false, time.Duration(0)
	status, err := r.limits.do(ctx, r.running(c, r.options.Clock.Now()), func() (authenticationv1.TokenReviewStatus, error) {
		asked = true
		start := r.options.Clock.Now()
		status, err := r.options.Backend.Review(ctx, token, []string{r.options.Audience})
		took = r.options.Clock.Since(start)
		if err != nil {
			return status, r.denials.weigh(classify(err, token), r.options.Clock.Now())
		}
		r.denials.over()
		return status, nil
	})
	var v Verdict
	if err == nil {
		if v, err = r.weigh(status, token, c); err == nil {
			err = r.seek(ctx, v, token)
		}
	}
	if asked {
		r.options.Recorder.Reviewed(cause, ReasonOf(err), took)
	}
	var refusal *Error
	switch {
	case err == nil:
		r.known.put(id, v, r.options.Clock.Now())
	case errors.Is(err, ErrInvalid) && errors.As(err, &refusal):
		r.known.drop(id)
		r.refused.Set(id, refusal)
	}
	return v, err
}

// running is the pod that a token says it is of, if that pod is known to run; empty otherwise. Anybody may say so: it earns a place among
// the reviews, and nothing else.
func (r *Reviewer) running(c claims, now time.Time) string {
	if c.podUID == "" || r.state(c.podUID, now) != liveness.Alive {
		return ""
	}
	return c.podUID
}

// weigh is Judge, and what is known beside the review: the token's expiry, which no leeway of the API server's extends, and
// that the pod has died meanwhile.
func (r *Reviewer) weigh(status authenticationv1.TokenReviewStatus, token string, c claims) (Verdict, error) {
	v, err := Judge(status, r.options.Audience)
	var refusal *Error
	if errors.As(err, &refusal) {
		refusal.Detail = scrubbed(refusal.Detail, token)
		return Verdict{}, refusal
	}
	v.Expiry = c.expiry
	now := r.options.Clock.Now()
	if !now.Before(v.Expiry) {
		return Verdict{}, &Error{Reason: TokenExpired, Detail: "the token has expired, although the API server still accepts it"}
	}
	if r.state(v.PodUID, now) == liveness.Dead {
		return Verdict{}, notLive()
	}
	return v, nil
}

// seek looks for the pod of an accepted token where no watch shows it. A review says yes for a pod that has ended for as long as its object is
// kept; the watch of running pods has never shown it if it had ended before we began.
func (r *Reviewer) seek(ctx context.Context, v Verdict, token string) error {
	if r.options.Look == nil || r.options.Lenient || r.state(v.PodUID, r.options.Clock.Now()) != liveness.Unknown {
		return nil
	}
	if v.PodName == "" {
		return invalid("the review names a pod by its UID alone")
	}
	switch state, err := r.options.Look(ctx, v.Namespace, v.PodName, v.PodUID); {
	case err != nil:
		return unavailable("the API server does not say whether the token's pod runs: " + scrubbed(err.Error(), token))
	case state == liveness.Dead:
		return notLive()
	default:
		return nil
	}
}
