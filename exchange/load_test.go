package exchange_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	authenticationv1 "k8s.io/api/authentication/v1"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/exchange"
	"github.com/lanyard-k8s/lanyard/exchange/keys"
	"github.com/lanyard-k8s/lanyard/exchange/waiting"
	"github.com/lanyard-k8s/lanyard/internal/liveness"
	"github.com/lanyard-k8s/lanyard/internal/tokenreview"
	"github.com/lanyard-k8s/lanyard/test/timing"
)

// slow is an API server that takes its time, and counts how many reviews are under way.
type slow struct {
	good      func(token string) bool
	now, most atomic.Int64
}

func (s *slow) Review(_ context.Context, token string, _ []string) (authenticationv1.TokenReviewStatus, error) {
	n := s.now.Add(1)
	defer s.now.Add(-1)
	for m := s.most.Load(); n > m && !s.most.CompareAndSwap(m, n); m = s.most.Load() {
	}
	if s.good(token) {
		return yes(podUID), nil
	}
	<-time.After(5 * time.Millisecond)
	return authenticationv1.TokenReviewStatus{Error: "no"}, nil
}

// mostUnderWay bounds a flood's requests, as a server's connections are bounded: on a machine that is short of time they would come faster
// than they are answered, until they hold all of its memory. There are more than the reviewer lets wait.
const mostUnderWay = 1024

// flood is many strangers' tokens.
type flood struct {
	sent   atomic.Int64
	ask    func(from, token string)
	token  func(i, n int) string
	places chan struct{}
	ended  sync.WaitGroup
}

// newFlood is a flood that begins with run.
func newFlood(ask func(from, token string), token func(i, n int) string) *flood {
	return &flood{ask: ask, token: token, places: make(chan struct{}, mostUnderWay)}
}

// run sends tokens, each from an address of its own and some four every millisecond, until ctx ends. While as many are under way as may
// be, it sends none.
func (f *flood) run(ctx context.Context) {
	for i := range 4 {
		f.ended.Go(func() {
			for n := 0; ; n++ {
				select {
				case f.places <- struct{}{}:
				case <-ctx.Done():
					return
				}
				token := f.token(i, n)
				f.ended.Go(func() {
					defer func() { <-f.places }()
					f.ask(fmt.Sprintf("10.%d.%d.%d:1", i+1, n>>8&255, n&255), token)
				})
				f.sent.Add(1)
				<-time.After(time.Millisecond)
			}
		})
	}
}

// TestAFloodIsBounded: where nothing is answered, no more is sent.
func TestAFloodIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		answered := make(chan struct{})
		f := newFlood(func(string, string) { <-answered }, func(int, int) string { return "" })
		f.run(ctx)
		<-time.After(time.Minute)
		if sent := f.sent.Load(); sent != mostUnderWay {
			t.Errorf("%d are under way, want %d", sent, mostUnderWay)
		}
		stop()
		close(answered)
		f.ended.Wait()
	})
}

// TestAFloodOfTokens is attack 28 from many addresses, with the limits of the default settings: never more than 16 reviews at once, and
// whoever is known is served meanwhile.
func TestAFloodOfTokens(t *testing.T) {
	t.Parallel()
	r := newRig(t, "")
	r.delegated()
	known := good()
	backend := &slow{good: func(token string) bool { return token == known }}
	reviewer, err := tokenreview.NewReviewer(tokenreview.Options{
		Backend: backend, Audience: subjectA, QPS: float64(r.config.Review.QPS), Burst: int(r.config.Review.Burst), MaxInFlight: int(r.config.Review.Concurrent),
	})
	must(t, err)
	defer reviewer.Close()
	desk := r.another(reviewer)
	if code := ask(desk, "10.0.0.1:1", known); code != 200 {
		t.Fatalf("before the flood: %d", code)
	}
	ctx, stop := context.WithTimeout(t.Context(), 1500*time.Millisecond)
	defer stop()
	strangers := newFlood(func(from, token string) { ask(desk, from, token) }, func(i, n int) string {
		return subject(fmt.Sprintf("%d-%d", i, n), subjectA, time.Now().Add(time.Hour))
	})
	strangers.run(ctx)
	var took []time.Duration
	for ctx.Err() == nil {
		start := time.Now()
		if code := ask(desk, "10.0.0.1:1", known); code != 200 {
			t.Errorf("during the flood: %d", code)
		}
		took = append(took, time.Since(start))
		<-time.After(time.Millisecond)
	}
	strangers.ended.Wait()
	slices.Sort(took)
	p99 := took[len(took)*99/100]
	t.Logf("%d tokens/s, at most %d reviews at once, p99 of %d good exchanges %v", strangers.sent.Load()*2/3, backend.most.Load(), len(took), p99)
	if backend.most.Load() > 16 || p99 > time.Second {
		t.Errorf("%d reviews at once, p99 %v", backend.most.Load(), p99)
	}
}

// watched says that pods run whose UID begins so, and knows no others.
type watched string

func (w watched) State(uid string, _ time.Time) liveness.State {
	if strings.HasPrefix(uid, string(w)) {
		return liveness.Alive
	}
	return liveness.Unknown
}

func (watched) Subscribe(func(string)) func() { return func() {} }

// TestAFloodKeepsNoPodOut is attack 28 upon tokens that nobody has seen yet: while more forged ones come than are reviewed, each from an
// address of its own, pods that run exchange their first token. Without a share of their own few would.
//
// It runs alone: the others are not to be measured beside it.
func TestAFloodKeepsNoPodOut(t *testing.T) {
	r := newRig(t, "")
	r.delegated()
	const pods = 40
	tokens, good := make([]string, pods), map[string]bool{}
	for i := range pods {
		tokens[i] = subjectOf(fmt.Sprint(podUID, i), "first", subjectA, time.Now().Add(time.Hour))
		good[tokens[i]] = true
	}
	backend := &slow{good: func(token string) bool { return good[token] }}
	reviewer, err := tokenreview.NewReviewer(tokenreview.Options{
		Backend: backend, Audience: subjectA, QPS: float64(r.config.Review.QPS), Burst: int(r.config.Review.Burst), MaxInFlight: int(r.config.Review.Concurrent),
		Pods: watched(podUID[:8]), AnswerIn: 10 * time.Second,
	})
	must(t, err)
	defer reviewer.Close()
	desk := r.another(reviewer)
	ctx, stop := context.WithCancel(t.Context())
	strangers := newFlood(func(from, token string) { ask(desk, from, token) }, func(i, n int) string {
		return subjectOf("ffffffff", fmt.Sprintf("%d-%d", i, n), subjectA, time.Now().Add(time.Hour))
	})
	strangers.run(ctx)
	defer strangers.ended.Wait()
	defer stop()
	timing.Within(t, 2*time.Minute, "the burst is used up", func() bool { return strangers.sent.Load() >= 2000 })
	var took []time.Duration
	granted, before, begun := 0, strangers.sent.Load(), time.Now()
	for i, token := range tokens {
		start := time.Now()
		if ask(desk, fmt.Sprintf("10.9.0.%d:1", i), token) == 200 {
			granted++
		}
		took = append(took, time.Since(start))
		<-time.After(50 * time.Millisecond)
	}
	rate := float64(strangers.sent.Load()-before) / time.Since(begun).Seconds()
	stop()
	strangers.ended.Wait()
	slices.Sort(took)
	t.Logf("%.0f tokens/s, at most %d reviews at once; of %d first tokens %d were exchanged, p99 %v", rate, backend.most.Load(), pods, granted, took[pods*99/100])
	if granted < pods*9/10 || backend.most.Load() > 16 {
		t.Errorf("%d of %d first tokens were exchanged, with %d reviews at once", granted, pods, backend.most.Load())
	}
}

// another is a second desk of the rig, with another reviewer and no network.
func (r *rig) another(reviewer exchange.Reviewer) *exchange.Desk {
	r.t.Helper()
	metrics, err := exchange.NewMetrics(prometheus.NewRegistry())
	must(r.t, err)
	desk, err := exchange.NewDesk(exchange.Options{
		Settings: r.config, Reviewer: reviewer, Store: r.reader, Keys: r.keeper, Room: waiting.New(2, 256), Metrics: metrics, Log: logr.Discard(),
	})
	must(r.t, err)
	r.t.Cleanup(desk.Close)
	return desk
}

// ask exchanges without a network.
func ask(desk http.Handler, from, token string) int {
	req := httptest.NewRequest(http.MethodPost, wire.PathToken, strings.NewReader(form(token).Encode()))
	req.Header.Set("Content-Type", wire.FormType)
	req.RemoteAddr = from
	w := httptest.NewRecorder()
	desk.ServeHTTP(w, req)
	return w.Code
}

// TestRotationWhileTokensAreMade: real goroutines sign, rotate by hand and ask the same desk, as gateways do, whose keeper has every key as
// soon as it signs; no token's key is ever unknown to it. Verifiers that fetch the set and keep it are J4's, and those of
// test/integration/processes.
func TestRotationWhileTokensAreMade(t *testing.T) {
	t.Parallel()
	r := newRig(t, "")
	r.delegated()
	end := time.Now().Add(time.Second)
	var wg sync.WaitGroup
	verifiedTokens := atomic.Int64{}
	for range 3 {
		wg.Go(func() {
			for time.Now().Before(end) {
				if a := r.callout(r.granted().token()); a.status != 200 {
					t.Errorf("got %d %s", a.status, a.text)
				}
				verifiedTokens.Add(1)
			}
		})
	}
	wg.Go(func() {
		for time.Now().Before(end) {
			if _, _, err := keys.Apply(t.Context(), r.shelf, r.config.Keys.Alg, r.config.Keys.Timing, keys.Change{Now: true}, time.Now()); err != nil {
				t.Error(err)
			}
			if err := r.keeper.Refresh(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
	wg.Wait()
	t.Logf("%d tokens verified while keys changed", verifiedTokens.Load())
}
