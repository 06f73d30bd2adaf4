package exchange_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/delegation"
)

// seated waits until so many requests are held.
func (r *rig) seated(n int) {
	r.t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for start := time.Now(); r.room.Taken() != n; <-tick.C {
		if time.Since(start) > 10*time.Second {
			r.t.Fatalf("%d requests are held, want %d", r.room.Taken(), n)
		}
	}
}

// send posts in the background.
func (r *rig) send(ctx context.Context, token string) <-chan answer {
	out := make(chan answer, 1)
	req := r.request(http.MethodPost, wire.PathToken, strings.NewReader(form(token).Encode())).WithContext(ctx)
	req.Header.Set("Content-Type", wire.FormType)
	go func() {
		defer close(out)
		resp, err := r.client().Do(req)
		if err != nil {
			return
		}
		out <- answer{status: resp.StatusCode, header: resp.Header}
		_ = resp.Body.Close()
	}()
	return out
}

// TestHeldRequestsAreWokenByTheJudgement, whichever it is; nobody polls meanwhile.
func TestHeldRequestsAreWokenByTheJudgement(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		judge func(r *rig)
		want  int
	}{
		"confirmed": {func(r *rig) { r.delegated() }, 200},
		"refused": {func(r *rig) {
			r.delegated(func(_ *delegation.Submission, w *delegation.Row) {
				w.State, w.Reason, w.RevokedAt, w.SubmissionUID = delegation.Revoked, delegation.PodRefused, time.Now(), ""
			})
		}, 400},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, "limits: {}")
			got := r.send(t.Context(), good())
			r.seated(1)
			reads := r.reader.reads.Load()
			r.room.Judged("ref-of-somebody-else")
			start := time.Now()
			tc.judge(r)
			r.room.Judged(row())
			a := <-got
			if a.status != tc.want || time.Since(start) > 4*time.Second {
				t.Errorf("got %d after %v", a.status, time.Since(start))
			}
			if more := r.reader.reads.Load() - reads; more != 1 {
				t.Errorf("the row was read %d times while waiting", more)
			}
			if r.series("lanyard_exchange_held_total", "judged") != 1 {
				t.Error("the wait is not counted")
			}
		})
	}
}

// TestAnotherReplicaJudges: what this process did not write itself, it learns from the store.
func TestAnotherReplicaJudges(t *testing.T) {
	t.Parallel()
	r := newRig(t, "limits: {}")
	ctx, cancel := context.WithCancel(t.Context())
	following := make(chan error, 1)
	go func() { following <- r.room.Follow(ctx, r.store) }()
	got := r.send(t.Context(), good())
	r.seated(1)
	r.delegated()
	if a := <-got; a.status != 200 {
		t.Errorf("got %d", a.status)
	}
	cancel()
	must(t, <-following)
	must(t, r.store.Close())
}

func TestAWaitEnds(t *testing.T) {
	t.Parallel()
	r := newRig(t, "limits: {holdMilliseconds: 30}")
	start := time.Now()
	r.check(r.post(form(good())), wanted{503, "temporarily_unavailable", "row_absent"})
	if took := time.Since(start); took < 30*time.Millisecond || took > 3*time.Second {
		t.Errorf("after %v", took)
	}
}

func TestTwoHeldRequestsAPod(t *testing.T) {
	t.Parallel()
	r := newRig(t, "limits: {}")
	first, second := r.send(t.Context(), good()), r.send(t.Context(), good())
	r.seated(2)
	start := time.Now()
	if a := r.post(form(good())); a.status != 503 || a.header.Get("Retry-After") == "" || time.Since(start) > 4*time.Second {
		t.Errorf("the third: %d after %v", a.status, time.Since(start))
	}
	r.delegated()
	r.room.Judged(row())
	if a, b := <-first, <-second; a.status != 200 || b.status != 200 {
		t.Errorf("got %d and %d", a.status, b.status)
	}
}

func TestHeldRequestsInAll(t *testing.T) {
	t.Parallel()
	r := newRig(t, "limits: {held: 1}")
	r.api.says(func(_ context.Context, token string, _ []string) (authenticationv1.TokenReviewStatus, error) {
		if token == good() {
			return yes(podUID), nil
		}
		return yes("99999999-2222-3333-4444-555555555555"), nil
	})
	ctx, cancel := context.WithCancel(t.Context())
	held := r.send(ctx, subject("other", subjectA, time.Now().Add(time.Hour)))
	r.seated(1)
	if a := r.post(form(good())); a.status != 503 {
		t.Errorf("the second: %d", a.status)
	}
	cancel() // a client that hangs up gives its seat back
	<-held
	r.seated(0)
}

func TestDrainingEndsWaits(t *testing.T) {
	t.Parallel()
	r := newRig(t, "limits: {}")
	got := r.send(t.Context(), good())
	r.seated(1)
	r.desk.Drain()
	if a := <-got; a.status != 503 || a.header.Get("Retry-After") == "" {
		t.Errorf("got %d", a.status)
	}
}

func TestTooManyRequests(t *testing.T) {
	t.Parallel()
	r := newRig(t, "limits: {requests: 1}")
	got := r.send(t.Context(), good())
	r.seated(1)
	if a := r.post(form(good())); a.status != http.StatusTooManyRequests || a.header.Get("Retry-After") == "" || r.count("rate_limited") != 1 {
		t.Errorf("got %d %s", a.status, a.text)
	}
	r.desk.Drain()
	<-got
}
