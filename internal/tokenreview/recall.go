package tokenreview

import (
	"context"
	"errors"
	"time"

	"github.com/lanyard-k8s/lanyard/internal/liveness"
)

// overdue is how long after a verdict was due its token may come and be answered before the review is. Later, nobody has
// asked for long, and the review comes first.
const overdue = time.Minute

// confirmIn is how long a caller waits for a review of what is known. After it, the verdict goes on as it is.
const confirmIn = 500 * time.Millisecond

// recall answers from a remembered verdict, or leaves the token to be treated as unknown. A verdict never outlives its token,
// and a dead pod ends it; that the API server cannot be asked does not.
func (r *Reviewer) recall(ctx context.Context, id key, e *entry, token string, now time.Time) (answer, bool) {
	if !now.Before(e.verdict.Expiry) {
		r.known.drop(id)
		return answer{}, false
	}
	state := r.state(e.verdict.PodUID, now)
	if state == liveness.Dead {
		r.known.drop(id)
		return answer{source: FromCache, err: notLive()}, true
	}
	every, cause := e.every, Refresh
	if state == liveness.Unknown {
		every, cause = min(every, r.options.FallbackEvery), Fallback
	}
	age := now.Sub(e.confirmed)
	if age >= 0 && age < every { // a clock that was set back makes it due
		return answer{verdict: e.verdict, source: FromCache}, true
	}
	return r.confirm(ctx, id, e, token, now, cause, cause == Fallback || age < 0 || age >= every+overdue), true
}

// confirm reviews a known token again, in the background or, if wait is set, before it answers. After a review in vain the
// next is tried in the background and not before FallbackEvery.
func (r *Reviewer) confirm(ctx context.Context, id key, e *entry, token string, now time.Time, cause Cause, wait bool) answer {
	stale := answer{verdict: e.verdict, source: FromStale}
	if !wait {
		stale.source = FromCache
	}
	if failed := e.failed.Load(); failed != 0 {
		wait, stale.source = false, FromStale
		if since := now.Sub(time.Unix(0, failed)); since >= 0 && since < r.options.FallbackEvery {
			return stale
		}
	}
	if !wait {
		if e.refreshing.CompareAndSwap(false, true) {
			r.refresh(id, e, token, cause)
		}
		return stale
	}
	timer := r.options.Clock.NewTimer(confirmIn)
	defer timer.Stop()
	select {
	case got := <-r.refresh(id, e, token, cause):
		if got.err == nil || errors.Is(got.err, ErrInvalid) {
			return got
		}
	case <-timer.C():
		e.failed.CompareAndSwap(0, now.UnixNano())
	case <-ctx.Done():
	}
	return stale
}

// refresh starts or joins the review of a known token.
func (r *Reviewer) refresh(id key, e *entry, token string, cause Cause) <-chan answer {
	result := make(chan answer, 1)
	c, err := read(token)
	if err == nil && !r.begin() {
		err = unavailable("shutting down")
	}
	if err != nil {
		result <- answer{source: FromReview, err: err}
		return result
	}
	flight := r.fly(id, token, c, cause, e.confirmed)
	go func() {
		defer r.flying.Done()
		got := <-flight
		if errors.Is(got.Err, ErrUnavailable) || errors.Is(got.Err, ErrInternal) {
			e.failed.Store(r.options.Clock.Now().UnixNano())
		}
		e.refreshing.Store(false)
		v, _ := got.Val.(Verdict)
		result <- answer{verdict: v, source: FromReview, err: got.Err}
	}()
	return result
}
