package tokenreview

import (
	"context"
	"errors"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/lanyard-k8s/lanyard/internal/liveness"
	"github.com/lanyard-k8s/lanyard/test/timing"
)

// everyFive makes verdicts due after five minutes exactly.
func everyFive(o *Options) { o.RefreshMin, o.RefreshMax = 5*time.Minute, 5*time.Minute }

func TestAVerdictIsReviewedAgainInTheBackground(t *testing.T) {
	t.Parallel()
	g := newRig(t, everyFive)
	token := tokenFor(minted{})
	g.wants(t, token, "")
	g.clock.Step(5*time.Minute - 1)
	g.wants(t, token, "")
	g.backend.called(t, 1)

	proceed := make(chan struct{})
	g.backend.say = func(context.Context, string) (authenticationv1.TokenReviewStatus, error) {
		<-proceed
		return yes("pod-1"), nil
	}
	g.clock.Step(1)
	for range 100 {
		g.wants(t, token, "") // none waits
	}
	close(proceed)
	timing.Within(t, time.Minute, "the review came back", func() bool {
		e, ok := g.known.get(g.keys.of(token))
		return ok && e.confirmed.After(epoch())
	})
	g.backend.called(t, 2)
	g.clock.Step(5*time.Minute - 1)
	g.wants(t, token, "")
	g.backend.called(t, 2)
}

// slowCaller is the clock of a caller that is put to sleep right after it has looked at it.
type slowCaller struct {
	*clocktesting.FakeClock

	meanwhile func()
}

func (c *slowCaller) Now() time.Time {
	now := c.FakeClock.Now()
	if meanwhile := c.meanwhile; meanwhile != nil {
		c.meanwhile = nil
		meanwhile()
	}
	return now
}

func TestAVerdictThatArrivesMeanwhileIsNotFromTheFuture(t *testing.T) {
	t.Parallel()
	var slow slowCaller
	g := newRig(t, func(o *Options) {
		slow.FakeClock = o.Clock.(*clocktesting.FakeClock)
		o.Clock = &slow
	})
	token := tokenFor(minted{})
	slow.meanwhile = func() {
		g.clock.Step(time.Second)
		g.wants(t, token, "")
	}
	g.wants(t, token, "")
	g.backend.called(t, 1)
}

func TestTheTimeOfTheNextReviewIsJittered(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	seen := map[time.Duration]bool{}
	for i := range 20 {
		token := tokenFor(minted{mark: string(rune('a' + i))})
		g.wants(t, token, "")
		e, ok := g.known.get(g.keys.of(token))
		if !ok || e.every < 5*time.Minute || e.every > 10*time.Minute {
			t.Fatalf("reviewed again after %v, want 5 to 10 minutes", e)
		}
		seen[e.every] = true
	}
	if len(seen) < 10 {
		t.Errorf("20 verdicts are due at %d times", len(seen))
	}
}

// TestAServiceAccountThatWasReCreated is T8: no watch tells, the next review does.
func TestAServiceAccountThatWasReCreated(t *testing.T) {
	t.Parallel()
	g := newRig(t, everyFive)
	token := tokenFor(minted{})
	g.wants(t, token, "")
	g.backend.say = func(context.Context, string) (authenticationv1.TokenReviewStatus, error) {
		return no("the service account has another UID"), nil
	}
	g.clock.Step(5 * time.Minute)
	g.wants(t, token, "")
	timing.Within(t, time.Minute, "the verdict was dropped", func() bool { return g.Size() == 0 })
	g.wants(t, token, TokenInvalid)
	g.backend.called(t, 2)
}

func TestAVerdictThatNobodyAskedForIsReviewedFirst(t *testing.T) {
	t.Parallel()
	g := newRig(t, everyFive)
	token := tokenFor(minted{})
	g.wants(t, token, "")
	g.backend.say = func(context.Context, string) (authenticationv1.TokenReviewStatus, error) { return no("gone"), nil }
	g.clock.Step(7 * time.Minute)
	g.wants(t, token, TokenInvalid)
	g.backend.called(t, 2)
}

func TestWithoutAWatchAVerdictIsReviewedEveryTenSeconds(t *testing.T) {
	t.Parallel()
	for name, option := range map[string]func(*Options){
		"the watch does not know the pod": func(o *Options) { o.Pods = &pods{} },
		"there is no watch":               func(o *Options) { o.Pods = nil },
		"a dead pod, for the lenient": func(o *Options) {
			o.Lenient, o.Pods = true, &pods{state: map[string]liveness.State{"pod-1": liveness.Dead}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newRig(t, option)
			token := tokenFor(minted{})
			g.wants(t, token, "")
			g.clock.Step(10*time.Second - 1)
			g.wants(t, token, "")
			g.backend.called(t, 1)
			g.clock.Step(1)
			g.wants(t, token, "")
			g.backend.called(t, 2)
			g.backend.say = func(context.Context, string) (authenticationv1.TokenReviewStatus, error) { return no("gone"), nil }
			g.clock.Step(10 * time.Second)
			g.wants(t, token, TokenInvalid)
		})
	}
}

// TestAnOutageDoesNotEndWhatIsKnown is T29 for callers that are known.
func TestAnOutageDoesNotEndWhatIsKnown(t *testing.T) {
	t.Parallel()
	for name, option := range map[string]func(*Options){
		"with a watch":    everyFive,
		"without a watch": func(o *Options) { o.Pods = nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newRig(t, option)
			token := tokenFor(minted{})
			g.wants(t, token, "")
			g.backend.say = func(context.Context, string) (authenticationv1.TokenReviewStatus, error) {
				return authenticationv1.TokenReviewStatus{}, errors.New("connection refused")
			}
			for g.clock.Step(7 * time.Second); g.clock.Now().Before(epoch().Add(time.Hour)); g.clock.Step(7 * time.Second) {
				g.wants(t, token, "")
			}
			g.clock.Step(6 * time.Second)
			g.wants(t, token, TokenExpired)
		})
	}
}

func TestAClockThatIsSetBackMakesAVerdictDue(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	token := tokenFor(minted{})
	g.wants(t, token, "")
	g.clock.SetTime(epoch().Add(-time.Hour))
	g.wants(t, token, "")
	g.backend.called(t, 2)
}

func TestTheDeathOfAPodWinsOverAnOutage(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	token := tokenFor(minted{})
	g.wants(t, token, "")
	g.backend.say = func(context.Context, string) (authenticationv1.TokenReviewStatus, error) {
		return authenticationv1.TokenReviewStatus{}, errors.New("connection refused")
	}
	g.pods.set("pod-1", liveness.Dead)
	g.wants(t, token, PodNotLive)
}
