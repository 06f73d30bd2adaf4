package tokenreview

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
)

// hang is an API server that was stopped in its tracks.
func hang(ctx context.Context, _ string) (authenticationv1.TokenReviewStatus, error) {
	<-ctx.Done()
	return authenticationv1.TokenReviewStatus{}, ctx.Err()
}

// bubbled makes a Reviewer for a synctest bubble, whose clock the circuit breaker sees too; it must be closed in it.
func bubbled(t *testing.T, change ...func(*Options)) rig {
	t.Helper()
	g := rig{backend: &backend{}, pods: living()}
	o := Options{Backend: g.backend, Audience: audience, Pods: g.pods, Clock: clock.RealClock{}}
	for _, c := range change {
		c(&o)
	}
	r, err := NewReviewer(o)
	if err != nil {
		t.Fatal(err)
	}
	g.Reviewer = r
	return g
}

// soon is a token that is valid in a bubble, where it is the year 2000.
func soon(mark string) string {
	return tokenFor(minted{exp: time.Now().Add(time.Hour).Unix(), mark: mark})
}

// TestAStrangerIsAnsweredInTimeDuringAnOutage is T29 for tokens that are not known.
func TestAStrangerIsAnsweredInTimeDuringAnOutage(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		deadline time.Duration // of the caller; 0 is none
		within   time.Duration
	}{
		"without a deadline, within two seconds":                       {0, 2 * time.Second},
		"with a far deadline, within two seconds":                      {5 * time.Second, 2 * time.Second},
		"with a near deadline, half a second before it":                {1500 * time.Millisecond, time.Second},
		"with a deadline that is nearer still, in half of what's left": {400 * time.Millisecond, 200 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				g := bubbled(t)
				defer g.Close()
				g.backend.say = hang
				ctx := t.Context()
				if tc.deadline > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, tc.deadline)
					defer cancel()
				}
				start := time.Now()
				_, err := g.Review(ctx, soon(""), nil)
				if took := time.Since(start); ReasonOf(err) != ValidatorUnavailable || took > tc.within {
					t.Errorf("%v after %s, want %s within %s", err, took, ValidatorUnavailable, tc.within)
				}
			})
		})
	}
}

func TestTheBreakerKnowsThatTheAPIServerIsDown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := bubbled(t)
		defer g.Close()
		known := soon("known")
		g.wants(t, known, "")
		g.backend.say = hang
		for i := range 3 {
			g.wants(t, soon(fmt.Sprint(i)), ValidatorUnavailable)
		}
		if !g.Down() {
			t.Error("three reviews without an answer, and nobody noticed")
		}
		g.backend.called(t, 4)
		start := time.Now()
		for i := range 100 {
			g.wants(t, soon(fmt.Sprint("more", i)), ValidatorUnavailable)
			g.wants(t, known, "")
		}
		if took := time.Since(start); took != 0 {
			t.Errorf("callers waited %s for a server that is known to be down", took)
		}
		g.backend.called(t, 4)

		<-time.After(1001 * time.Millisecond) // of the bubble's time
		g.backend.say = nil
		g.wants(t, soon("back"), "")
		g.wants(t, soon("0"), "")
		if g.Down() {
			t.Error("the API server is back, and nobody noticed")
		}
	})
}

func TestAKnownTokenWaitsHalfASecondAtMostOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := bubbled(t, func(o *Options) { o.Pods = nil })
		defer g.Close()
		token := soon("known")
		g.wants(t, token, "")
		g.backend.say = hang
		var waited time.Duration
		for range 60 {
			<-time.After(10 * time.Second)
			start := time.Now()
			g.wants(t, token, "")
			waited += time.Since(start)
		}
		if waited > 500*time.Millisecond {
			t.Errorf("a known caller waited for %s in ten minutes of outage", waited)
		}
		g.backend.say = nil
		<-time.After(10 * time.Second)
		g.wants(t, token, "")
		synctest.Wait()
		calls := g.backend.calls.Load()
		g.wants(t, token, "")
		g.backend.called(t, calls)
	})
}

func TestAPauseThatTheAPIServerAskedForIsKept(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.backend.say = func(context.Context, string) (authenticationv1.TokenReviewStatus, error) {
		return authenticationv1.TokenReviewStatus{}, apierrors.NewTooManyRequests("busy", 7)
	}
	token := tokenFor(minted{})
	wait := func() time.Duration {
		t.Helper()
		_, err := g.Review(t.Context(), token, nil)
		var e *Error
		if !errors.As(err, &e) || e.Reason != ValidatorUnavailable {
			t.Fatalf("error = %v, want %s", err, ValidatorUnavailable)
		}
		return e.RetryAfter
	}
	if got := wait(); got != 7*time.Second {
		t.Errorf("retry after %s, want 7s", got)
	}
	g.clock.Step(3 * time.Second)
	if got := wait(); got != 4*time.Second {
		t.Errorf("retry after %s, want the rest of the pause", got)
	}
	g.backend.called(t, 1)
	if g.Down() {
		t.Error("a server that asks for a pause counts as down")
	}
	g.backend.say = nil
	g.clock.Step(4 * time.Second)
	g.wants(t, token, "")
}

func TestReviewsAtOnceAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := bubbled(t, func(o *Options) { o.MaxInFlight, o.MaxWaiting, o.QPS, o.Burst = 4, 10, 1e6, 1e6 })
		defer g.Close()
		var now, most atomic.Int64
		g.backend.say = func(context.Context, string) (authenticationv1.TokenReviewStatus, error) {
			if n := now.Add(1); n > most.Load() {
				most.Store(n)
			}
			<-time.After(100 * time.Millisecond)
			now.Add(-1)
			return no("bad"), nil
		}
		answers := make(chan Reason)
		for i := range 100 {
			go func() {
				_, err := g.Review(t.Context(), soon(fmt.Sprint(i)), nil)
				answers <- ReasonOf(err)
			}()
		}
		count := map[Reason]int{}
		for range 100 {
			count[<-answers]++
		}
		if most.Load() > 4 {
			t.Errorf("%d reviews at once, want 4", most.Load())
		}
		if count[TokenInvalid] != 14 || count[ValidatorUnavailable] != 86 {
			t.Errorf("answers %v, want 14 reviewed and 86 held back", count)
		}
	})
}

func TestTheRateIsKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := bubbled(t, func(o *Options) { o.QPS, o.Burst, o.Pods = 10, 5, nil })
		defer g.Close()
		g.backend.say = func(context.Context, string) (authenticationv1.TokenReviewStatus, error) { return no("bad"), nil }
		start := time.Now()
		for i := range 25 {
			g.wants(t, soon(fmt.Sprint(i)), TokenInvalid)
		}
		if took := time.Since(start); took != 2*time.Second {
			t.Errorf("5 at once and 20 at ten a second took %s", took)
		}
	})
}

func TestClassify(t *testing.T) {
	t.Parallel()
	resource := schema.GroupResource{Group: "authentication.k8s.io", Resource: "tokenreviews"}
	status := func(code int32, seconds int32) error {
		return &apierrors.StatusError{ErrStatus: metav1.Status{
			Code: code, Message: "m", Details: &metav1.StatusDetails{RetryAfterSeconds: seconds},
		}}
	}
	for name, tc := range map[string]struct {
		err   error
		want  Reason
		after time.Duration
		hint  string
	}{
		"T30 our account may not review":      {apierrors.NewForbidden(resource, "", errors.New("no")), ValidatorError, 0, RuleHint},
		"our own credentials are refused":     {apierrors.NewUnauthorized("no"), ValidatorError, 0, credentialHint},
		"our request is malformed":            {apierrors.NewBadRequest("no"), ValidatorError, 0, ""},
		"our request is not valid":            {status(http.StatusUnprocessableEntity, 0), ValidatorError, 0, ""},
		"the resource is not served":          {apierrors.NewNotFound(resource, ""), ValidatorError, 0, ""},
		"the server has failed":               {apierrors.NewInternalError(errors.New("no")), ValidatorUnavailable, 0, ""},
		"the server is not there":             {apierrors.NewServiceUnavailable("no"), ValidatorUnavailable, 0, ""},
		"the server is shutting down":         {status(http.StatusServiceUnavailable, 3), ValidatorUnavailable, 3 * time.Second, ""},
		"the server is too slow":              {apierrors.NewTimeoutError("no", 1), ValidatorUnavailable, time.Second, ""},
		"the server is too busy":              {apierrors.NewTooManyRequests("no", 5), ValidatorUnavailable, 5 * time.Second, ""},
		"the server is too busy for a day":    {apierrors.NewTooManyRequests("no", 86400), ValidatorUnavailable, 30 * time.Second, ""},
		"a gateway before the server is lost": {status(http.StatusBadGateway, 0), ValidatorUnavailable, 0, ""},
		"the network":                         {errors.New("connection refused"), ValidatorUnavailable, 0, ""},
		"the server hung up":                  {errors.New("unexpected EOF"), ValidatorUnavailable, 0, ""},
		"no answer in time":                   {context.DeadlineExceeded, ValidatorUnavailable, 0, ""},
		"any of them, wrapped":                {fmt.Errorf("x: %w", apierrors.NewUnauthorized("no")), ValidatorError, 0, credentialHint},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := classify(tc.err, "a.b.c")
			if got.Reason != tc.want || got.RetryAfter != tc.after || got.Hint != tc.hint {
				t.Errorf("classify = %+v, want %s, retry after %s, hint %q", got, tc.want, tc.after, tc.hint)
			}
		})
	}
}

func TestEveryReasonHasAKind(t *testing.T) {
	t.Parallel()
	for _, reason := range Reasons() {
		kinds := 0
		for _, kind := range []error{ErrInvalid, ErrUnavailable, ErrTimeout, ErrInternal} {
			if errors.Is(&Error{Reason: reason}, kind) {
				kinds++
			}
		}
		if kinds != 1 {
			t.Errorf("%s is of %d kinds, want one", reason, kinds)
		}
	}
	if ReasonOf(errors.New("anything")) != ValidatorError || ReasonOf(nil) != "" {
		t.Error("an unknown error must be validator_error, and none must have no reason")
	}
}
