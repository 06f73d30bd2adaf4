package tokenreview

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"
	"golang.org/x/time/rate"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/utils/clock"
)

// limits stand between us and the API server: a rate, a number of reviews at once and of tokens that wait, the pause that
// the API server asked for, and a circuit breaker that knows when it is down. A quarter of the reviews is kept for tokens that name a pod
// which runs: strangers, however many, cannot keep the pods that are there from being known.
type limits struct {
	clock    clock.Clock
	shared   lane
	reserved *lane // nil where nobody watches pods
	pods     podShares
	patience time.Duration // for the rate
	resume   atomic.Int64  // end of the pause, in unix nanoseconds
	breaker  *gobreaker.CircuitBreaker[authenticationv1.TokenReviewStatus]
}

func newLimits(o Options) *limits {
	l := &limits{
		clock:    o.Clock,
		shared:   newLane(o.QPS, o.Burst, o.MaxInFlight, o.MaxWaiting),
		patience: o.AnswerIn / 2,
		breaker: gobreaker.NewCircuitBreaker[authenticationv1.TokenReviewStatus](gobreaker.Settings{
			Name:         "tokenreviews",
			Timeout:      o.OpenFor,
			ReadyToTrip:  func(c gobreaker.Counts) bool { return int(c.ConsecutiveFailures) >= o.OpenAfter },
			IsSuccessful: func(err error) bool { return !errors.Is(err, ErrUnavailable) },
			// An API server that asks for a pause is not down; the pause is kept instead.
			IsExcluded: func(err error) bool { return retryAfter(err) > 0 },
		}),
	}
	if burst, slots, waiting := o.Burst/reservedShare, o.MaxInFlight/reservedShare, o.MaxWaiting/reservedShare; o.Pods != nil && burst > 0 && slots > 0 && waiting > 0 {
		qps := o.QPS / reservedShare
		kept := newLane(qps, burst, slots, waiting)
		l.reserved, l.shared = &kept, newLane(o.QPS-qps, o.Burst-burst, o.MaxInFlight-slots, o.MaxWaiting-waiting)
	}
	return l
}

// retryAfter is what the API server asked for in an error of ours.
func retryAfter(err error) time.Duration {
	var e *Error
	if errors.As(err, &e) {
		return e.RetryAfter
	}
	return 0
}

// open says whether the API server is known to be down.
func (l *limits) open() bool { return l.breaker.State() == gobreaker.StateOpen }

// doubtful says whether the API server was down a moment ago, and nobody knows yet whether it is back.
func (l *limits) doubtful() bool { return l.breaker.State() != gobreaker.StateClosed }

// do asks within the limits. pod is the UID of a pod that runs and that the token says it is of; empty for any other token. Its errors are
// all *Error, and ErrUnavailable if a limit held it back.
func (l *limits) do(ctx context.Context, pod string, ask func() (authenticationv1.TokenReviewStatus, error)) (authenticationv1.TokenReviewStatus, error) {
	none := authenticationv1.TokenReviewStatus{}
	in, err := l.enter(ctx, pod)
	if err != nil {
		return none, err
	}
	defer func() { <-in.slots }()
	status, err := l.breaker.Execute(ask)
	switch {
	case errors.Is(err, gobreaker.ErrOpenState), errors.Is(err, gobreaker.ErrTooManyRequests):
		return none, unavailable("the API server is down: " + err.Error())
	case retryAfter(err) > 0:
		l.resume.Store(l.clock.Now().Add(retryAfter(err)).UnixNano())
	}
	return status, err
}

// enter waits for a slot and for the rate. With no error, the lane's slot must be given back.
func (l *limits) enter(ctx context.Context, pod string) (*lane, error) {
	if l.open() {
		return nil, unavailable("the API server is down: " + gobreaker.ErrOpenState.Error())
	}
	now := l.clock.Now()
	if pause := time.Unix(0, l.resume.Load()).Sub(now); pause > 0 {
		e := unavailable("the API server has asked for a pause")
		e.RetryAfter = pause
		return nil, e
	}
	if l.reserved == nil || pod == "" {
		return &l.shared, l.wait(ctx, &l.shared)
	}
	if l.shared.free(now) && l.wait(ctx, &l.shared) == nil {
		return &l.shared, nil
	}
	if l.pods.allows(pod, now) && l.wait(ctx, l.reserved) == nil {
		return l.reserved, nil
	}
	return &l.shared, l.wait(ctx, &l.shared)
}

// wait waits for a place in a lane.
func (l *limits) wait(ctx context.Context, in *lane) error {
	if in.waiting.Add(1) > in.most {
		in.waiting.Add(-1)
		return unavailable("too many tokens wait for their review")
	}
	defer in.waiting.Add(-1)
	select {
	case in.slots <- struct{}{}:
	case <-ctx.Done():
		return unavailable("no review came free in time")
	}
	if err := l.pace(ctx, in.rate); err != nil {
		<-in.slots
		return err
	}
	return nil
}

// pace waits for the rate, if that is worth while.
func (l *limits) pace(ctx context.Context, r *rate.Limiter) error {
	now := l.clock.Now()
	place := r.ReserveN(now, 1)
	delay := place.DelayFrom(now)
	if delay == 0 {
		return nil
	}
	if delay > l.patience {
		place.CancelAt(now)
		return unavailable("too many reviews a second")
	}
	timer := l.clock.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C():
		return nil
	case <-ctx.Done():
		place.CancelAt(l.clock.Now())
		return unavailable("no review came free in time")
	}
}
