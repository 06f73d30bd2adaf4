package tokenreview

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"

	"github.com/lanyard-k8s/lanyard/internal/liveness"
	"github.com/lanyard-k8s/lanyard/test/timing"
)

func TestAKnownTokenIsNotReviewedAgain(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	token := tokenFor(minted{})
	first, err := g.Review(t.Context(), token, nil)
	if err != nil {
		t.Fatal(err)
	}
	again, err := g.Review(t.Context(), token, nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(first, again); diff != "" {
		t.Errorf("the second verdict differs (-first +second):\n%s", diff)
	}
	if first.PodUID != "pod-1" || !first.Bound() || !first.Expiry.Equal(epoch().Add(time.Hour)) {
		t.Errorf("verdict = %+v", first)
	}
	g.backend.called(t, 1)
}

// TestGates is about tokens that never reach the API server.
func TestGates(t *testing.T) {
	t.Parallel()
	single := func(o *Options) { o.SingleAudience = true }
	lenient := func(o *Options) { o.Lenient = true }
	for name, tc := range map[string]struct {
		token  minted
		option func(*Options)
		pod    liveness.State
		want   Reason
		calls  int64
	}{
		"ours":                               {minted{}, nil, liveness.Alive, "", 1},
		"meant for others":                   {minted{aud: []string{"api"}}, nil, liveness.Alive, TokenInvalid, 0},
		"meant for nobody":                   {minted{aud: []string{}}, nil, liveness.Alive, TokenInvalid, 0},
		"T13 meant for others too":           {minted{aud: []string{"api", audience}}, nil, liveness.Alive, "", 1},
		"T13 refused under SingleAudience":   {minted{aud: []string{"api", audience}}, single, liveness.Alive, TokenInvalid, 0},
		"ours alone under SingleAudience":    {minted{}, single, liveness.Alive, "", 1},
		"expired by more than five seconds":  {minted{exp: epoch().Unix() - 6}, nil, liveness.Alive, TokenExpired, 0},
		"T22 expired by less is cut at exp":  {minted{exp: epoch().Unix() - 5}, nil, liveness.Alive, TokenExpired, 1},
		"T22 expires this very moment":       {minted{exp: epoch().Unix()}, nil, liveness.Alive, TokenExpired, 1},
		"expires in a second":                {minted{exp: epoch().Unix() + 1}, nil, liveness.Alive, "", 1},
		"expired, for the lenient":           {minted{exp: epoch().Unix() - 6}, lenient, liveness.Alive, TokenInvalid, 0},
		"of a dead pod":                      {minted{}, nil, liveness.Dead, PodNotLive, 0},
		"of a dead pod, for the lenient":     {minted{}, lenient, liveness.Dead, "", 1},
		"of a pod that nobody watches":       {minted{}, nil, liveness.Unknown, "", 1},
		"of a pod that it only says to have": {minted{podUID: "pod-of-another"}, nil, liveness.Alive, "", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			option := tc.option
			if option == nil {
				option = func(*Options) {}
			}
			g := newRig(t, option)
			g.pods.set("pod-1", tc.pod)
			g.wants(t, tokenFor(tc.token), tc.want)
			g.backend.called(t, tc.calls)
		})
	}
}

func TestWordsThatCannotBeTokensCostNoReview(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	for name, word := range notTokens() {
		if _, err := g.Review(t.Context(), word, nil); ReasonOf(err) != TokenInvalid {
			t.Errorf("%s: error = %v, want %s", name, err, TokenInvalid)
		}
	}
	g.backend.called(t, 0)
}

// TestAFloodOfGarbageIsForgotten is T24.
func TestAFloodOfGarbageIsForgotten(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	for i := range 100_000 {
		_, err := g.Review(t.Context(), fmt.Sprintf("%d.garbage.%d", i, i), nil)
		if ReasonOf(err) != TokenInvalid {
			t.Fatalf("error = %v, want %s", err, TokenInvalid)
		}
	}
	g.backend.called(t, 0)
	if n := g.Size(); n != 0 || g.refused.EstimatedSize() != 0 {
		t.Errorf("%d verdicts and %d refusals remembered, want none", n, g.refused.EstimatedSize())
	}
}

// TestAFloodOfForgedTokensIsBounded is T25: each looks genuine, so each costs a review, within the limits; none costs memory for
// long, nor a good token its place. A quarter of the reviews is left for pods that run: the first token of one is reviewed in the flood, and
// forged ones that name a pod have no more than that pod's share.
func TestAFloodOfForgedTokensIsBounded(t *testing.T) {
	t.Parallel()
	g := newRig(t, func(o *Options) { o.QPS, o.Burst, o.MaxNegative = 0.1, 50, 20 })
	good, fresh := tokenFor(minted{}), tokenFor(minted{podUID: "pod-2", mark: "fresh"})
	g.pods.set("pod-2", liveness.Alive)
	g.wants(t, good, "")
	g.backend.say = func(_ context.Context, token string) (authenticationv1.TokenReviewStatus, error) {
		if token == fresh {
			return yes("pod-2"), nil
		}
		return no("invalid bearer token"), nil
	}
	for i := range 2000 {
		token := tokenFor(minted{podUID: "unknown", mark: fmt.Sprint(i)})
		if _, err := g.Review(t.Context(), token, nil); ReasonOf(err) != TokenInvalid && ReasonOf(err) != ValidatorUnavailable {
			t.Fatalf("a forged token: %v, want an invalid one, or none that could be reviewed", err)
		}
	}
	const strangers = 50 - 50/reservedShare
	g.backend.called(t, strangers)
	for i := range 100 {
		if _, err := g.Review(t.Context(), tokenFor(minted{mark: fmt.Sprint("named", i)}), nil); ReasonOf(err) != TokenInvalid && ReasonOf(err) != ValidatorUnavailable {
			t.Fatalf("a forged token that names a pod: %v", err)
		}
	}
	g.backend.called(t, strangers+podBurst)
	g.wants(t, fresh, "")
	g.backend.called(t, strangers+podBurst+1)
	g.refused.CleanUp()
	if n := g.refused.EstimatedSize(); n > 20 {
		t.Errorf("%d refusals remembered, want at most 20", n)
	}
	g.wants(t, good, "")
	g.backend.called(t, strangers+podBurst+1)
}

func TestARefusalIsRememberedForTwoSecondsAtMost(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	token := tokenFor(minted{})
	g.backend.say = func(context.Context, string) (authenticationv1.TokenReviewStatus, error) {
		return no("not yet valid"), nil
	}
	g.wants(t, token, TokenInvalid)
	g.clock.Step(2*time.Second - 1)
	g.wants(t, token, TokenInvalid)
	g.backend.called(t, 1)
	g.clock.Step(1)
	g.backend.say = nil
	g.wants(t, token, "")
	g.backend.called(t, 2)
	if _, err := NewReviewer(Options{Backend: g.backend, Audience: audience, NegativeFor: 3 * time.Second}); err == nil || !strings.Contains(err.Error(), "NegativeFor must not exceed 2s") {
		t.Errorf("refusals that are remembered for three seconds: %v", err)
	}
}

func TestAnOutageIsNotRemembered(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	token := tokenFor(minted{})
	g.backend.say = func(context.Context, string) (authenticationv1.TokenReviewStatus, error) {
		return authenticationv1.TokenReviewStatus{}, errors.New("connection refused")
	}
	g.wants(t, token, ValidatorUnavailable)
	g.backend.say = nil
	g.wants(t, token, "")
	g.backend.called(t, 2)
}

// TestManyFirstUsesShareOneReview is T28.
func TestManyFirstUsesShareOneReview(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	proceed := make(chan struct{})
	g.backend.say = func(context.Context, string) (authenticationv1.TokenReviewStatus, error) {
		<-proceed
		return yes("pod-1"), nil
	}
	token, bucket := tokenFor(minted{}), g.NewBucket()
	impatient, leave := context.WithCancel(t.Context())
	left := make(chan error)
	go func() {
		_, err := g.Review(impatient, token, bucket)
		left <- err
	}()
	timing.Within(t, time.Minute, "the first caller's review began", func() bool { return g.backend.calls.Load() == 1 })
	leave()
	if err := timing.Next(t, time.Minute, "the caller who leaves is let go", left); !errors.Is(err, ErrTimeout) || !errors.Is(err, context.Canceled) {
		t.Errorf("the caller who left has %v, want %s", err, ValidatorTimeout)
	}
	var all sync.WaitGroup
	for range 1000 {
		all.Go(func() {
			if _, err := g.Review(t.Context(), token, bucket); err != nil {
				t.Errorf("a caller who stayed has %v", err)
			}
		})
	}
	close(proceed)
	all.Wait()
	g.backend.called(t, 1)
}

func TestAPanicIsContained(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	token := tokenFor(minted{mark: "marked"})
	g.backend.say = func(_ context.Context, token string) (authenticationv1.TokenReviewStatus, error) {
		panic("bad luck with " + token)
	}
	_, err := g.Review(t.Context(), token, nil)
	if !errors.Is(err, ErrInternal) || strings.Contains(err.Error(), "luck") {
		t.Errorf("error = %v, want %s without the panic's value", err, ValidatorError)
	}
	g.backend.say = nil
	g.wants(t, token, "")
}

func TestAVerdictEndsWithItsToken(t *testing.T) {
	t.Parallel()
	g := newRig(t, func(o *Options) { o.RefreshMin, o.RefreshMax = 24*time.Hour, 24*time.Hour })
	token := tokenFor(minted{})
	g.wants(t, token, "")
	g.clock.SetTime(epoch().Add(time.Hour - 1))
	g.wants(t, token, "")
	g.backend.called(t, 1)
	g.clock.SetTime(epoch().Add(time.Hour))
	g.wants(t, token, TokenExpired) // the backend, like an API server, would go on for a minute
	g.clock.SetTime(epoch().Add(time.Hour + 6*time.Second))
	g.wants(t, token, TokenExpired)
	g.backend.called(t, 2)
	if n := g.Size(); n != 0 {
		t.Errorf("%d verdicts remembered, want none", n)
	}
}

func TestADeadPodEndsItsVerdicts(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	token := tokenFor(minted{})
	g.wants(t, token, "")
	g.wants(t, tokenFor(minted{mark: "2"}), "")
	g.pods.set("pod-1", liveness.Dead)
	g.wants(t, token, PodNotLive)
	g.pods.died("pod-1")
	if n := g.Size(); n != 0 {
		t.Errorf("%d verdicts of a dead pod remembered", n)
	}
	g.backend.called(t, 2)
}

func TestAPodThatDiesDuringItsReviewHasNoVerdict(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.backend.say = func(context.Context, string) (authenticationv1.TokenReviewStatus, error) {
		g.pods.set("pod-1", liveness.Dead)
		return yes("pod-1"), nil
	}
	g.wants(t, tokenFor(minted{}), PodNotLive)
	if n := g.Size(); n != 0 {
		t.Errorf("%d verdicts remembered", n)
	}
}

// TestAliasesOfAPodPushOutOnlyEachOther is T26.
func TestAliasesOfAPodPushOutOnlyEachOther(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	other := tokenFor(minted{podUID: "pod-2"})
	g.backend.say = func(_ context.Context, token string) (authenticationv1.TokenReviewStatus, error) {
		if token == other {
			return yes("pod-2"), nil
		}
		return yes("pod-1"), nil
	}
	g.pods.set("pod-2", liveness.Alive)
	g.wants(t, other, "")
	for i := range 50 {
		g.wants(t, tokenFor(minted{mark: fmt.Sprint(i)}), "")
	}
	if n := g.Size(); n != 5 {
		t.Errorf("%d verdicts remembered, want 4 of one pod and 1 of the other", n)
	}
	g.wants(t, other, "")
	g.wants(t, tokenFor(minted{mark: "49"}), "")
	g.backend.called(t, 51)
}

func TestMemoryOfVerdictsIsBounded(t *testing.T) {
	t.Parallel()
	g := newRig(t, func(o *Options) { o.MaxEntries, o.QPS, o.Burst = 100, 1e6, 1e6 })
	g.backend.say = func(_ context.Context, token string) (authenticationv1.TokenReviewStatus, error) {
		c, err := read(token)
		return yes(c.podUID), err
	}
	for i := range 5000 {
		g.wants(t, tokenFor(minted{podUID: fmt.Sprint("pod-", i)}), "")
	}
	timing.Within(t, time.Minute, "the cache is back within its bounds", func() bool {
		verdicts, pods := g.known.size()
		return verdicts <= 100 && pods <= 100
	})
}

func TestTheBucketStopsAConnectionThatBringsFailures(t *testing.T) {
	t.Parallel()
	g := newRig(t, func(o *Options) { o.FailedBurst, o.FailedEvery = 3, time.Second })
	good, bucket, other := tokenFor(minted{}), g.NewBucket(), g.NewBucket()
	if _, err := g.Review(t.Context(), good, bucket); err != nil {
		t.Fatal(err)
	}
	g.backend.say = func(context.Context, string) (authenticationv1.TokenReviewStatus, error) { return no("bad"), nil }
	bad := func(i int, b *Bucket) Reason {
		_, err := g.Review(t.Context(), tokenFor(minted{mark: fmt.Sprint(i)}), b)
		return ReasonOf(err)
	}
	var got []Reason
	for i := range 5 {
		got = append(got, bad(i, bucket))
	}
	got = append(got, bad(10, other))
	if diff := cmp.Diff([]Reason{TokenInvalid, TokenInvalid, TokenInvalid, RateLimited, RateLimited, TokenInvalid}, got); diff != "" {
		t.Errorf("answers (-want +got):\n%s", diff)
	}
	if _, err := g.Review(t.Context(), good, bucket); err != nil {
		t.Errorf("a known token on the same connection has %v", err)
	}
	g.backend.called(t, 5)
	g.clock.Step(time.Second)
	if got := bad(20, bucket); got != TokenInvalid {
		t.Errorf("after a second: %s", got)
	}
}

func TestRateLimitedIsUnavailableForTheLenient(t *testing.T) {
	t.Parallel()
	g := newRig(t, func(o *Options) { o.Lenient, o.FailedBurst = true, 1 })
	bucket := g.NewBucket()
	bucket.charge(g.clock.Now())
	if _, err := g.Review(t.Context(), tokenFor(minted{}), bucket); ReasonOf(err) != ValidatorUnavailable {
		t.Errorf("error = %v, want %s", err, ValidatorUnavailable)
	}
}

func TestNothingIsKnownAfterClose(t *testing.T) {
	t.Parallel()
	g := newRig(t)
	g.Close()
	g.wants(t, tokenFor(minted{}), ValidatorUnavailable)
	g.backend.called(t, 0)
}

// TestNoErrorHoldsAToken is T34 for errors: whatever a backend says, and however, the token stays out.
func TestNoErrorHoldsAToken(t *testing.T) {
	t.Parallel()
	token := tokenFor(minted{mark: "MARKER"})
	for name, say := range map[string]func(context.Context, string) (authenticationv1.TokenReviewStatus, error){
		"in a refusal": func(_ context.Context, token string) (authenticationv1.TokenReviewStatus, error) {
			return no("cannot parse " + token), nil
		},
		"in an error beside a yes": func(_ context.Context, token string) (authenticationv1.TokenReviewStatus, error) {
			s := yes("pod-1")
			s.Error = "odd: " + token
			return s, nil
		},
		"in an outage": func(_ context.Context, token string) (authenticationv1.TokenReviewStatus, error) {
			return authenticationv1.TokenReviewStatus{}, errors.New("post " + token)
		},
		"a part of it in an outage": func(_ context.Context, token string) (authenticationv1.TokenReviewStatus, error) {
			return authenticationv1.TokenReviewStatus{}, errors.New("post " + strings.Split(token, ".")[2])
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newRig(t)
			g.backend.say = say
			_, err := g.Review(t.Context(), token, nil)
			text := fmt.Sprintf("%v %+v %#v %s", err, err, err, ReasonOf(err))
			for part := range strings.SplitSeq(token, ".") {
				if strings.Contains(text, part) {
					t.Errorf("the error holds a part of the token: %v", err)
				}
			}
		})
	}
}
