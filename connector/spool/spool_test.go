package spool

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/lanyard-k8s/lanyard/connector/nodebinding"
	"github.com/lanyard-k8s/lanyard/connector/sink"
	"github.com/lanyard-k8s/lanyard/test/timing"
)

func TestABatchArrivesAsItWasAppended(t *testing.T) {
	t.Parallel()
	to := newCollector(sink.Log)
	s := opened(t, options(t, to))
	verified, tokenless := batchOf("system:serviceaccount:gpu:monitor", "1"), batchOf("", "2")
	tokenless.Degraded = true
	for _, b := range []sink.Batch{verified, tokenless} {
		if err := s.Append(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	running(t, s)
	to.await(t, 2)
	got := map[string]sink.Batch{to.batches[0].Key: to.batches[0], to.batches[1].Key: to.batches[1]}
	if diff := cmp.Diff(map[string]sink.Batch{"key-1": verified, "key-2": tokenless}, got, protocmp.Transform()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestOrderIsKeptPerPublisherThroughFailures(t *testing.T) {
	t.Parallel()
	to := newCollector(sink.Log)
	to.before = func(context.Context, sink.Batch) error {
		if rand.N(3) == 0 {
			return sink.Retry(sink.Unreachable, errDown)
		}
		return nil
	}
	s := opened(t, options(t, to))
	running(t, s)
	var wait sync.WaitGroup
	for p := range 5 {
		wait.Go(func() { appended(t, s, fmt.Sprint("publisher", p), 0, 40) })
	}
	wait.Wait()
	next := map[string]int{}
	for _, id := range to.await(t, 200) {
		publisher, _, _ := strings.Cut(id, "-")
		if want := fmt.Sprint(publisher, "-", next[publisher]); id != want {
			t.Fatalf("%s came where %s was due", id, want)
		}
		next[publisher]++
	}
}

func TestAStuckPublisherHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	to := newCollector(sink.Log)
	to.before = func(_ context.Context, b sink.Batch) error {
		if b.Caller.Username == "stuck" {
			return sink.Retry(sink.Busy, errDown)
		}
		return nil
	}
	s := opened(t, options(t, to))
	running(t, s)
	appended(t, s, "stuck", 0, 3)
	want := appended(t, s, "well", 0, 3)
	if diff := cmp.Diff(want, to.await(t, 3)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	left := func() int { return s.Stats().Depth[sink.Log] }
	timing.Within(t, time.Minute, "no more are left than are stuck", func() bool { return left() <= 3 }) // Deliver returns first
	if got := left(); got != 3 {
		t.Errorf("%d batches are left, want the three that are stuck", got)
	}
}

func TestEverySinkGoesOnFromWhereItWas(t *testing.T) {
	t.Parallel()
	works, fails := newCollector(sink.Log), newCollector(sink.Forward)
	fails.before = func(context.Context, sink.Batch) error { return errDown }
	o := options(t, works, fails)
	s := opened(t, o)
	stop := running(t, s)
	want := appended(t, s, "", 0, 5)
	works.await(t, 5)
	stop()
	if diff := cmp.Diff(map[sink.Name]int{sink.Log: 0, sink.Forward: 5}, s.Stats().Depth); diff != "" {
		t.Fatalf("depth (-want +got):\n%s", diff)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	fails.before = nil
	again := opened(t, o)
	running(t, again)
	if diff := cmp.Diff(want, fails.await(t, 5)); diff != "" {
		t.Errorf("after the restart (-want +got):\n%s", diff)
	}
	if err := again.Drain(soon(t)); err != nil {
		t.Fatal(err)
	}
	if got := works.got(); len(got) != 5 {
		t.Errorf("the sink that worked got %v, want each batch once", got)
	}
	if st := again.Stats(); st.Bytes != 0 || st.Segments != 0 || !st.Oldest.IsZero() {
		t.Errorf("what is delivered is still there: %+v", st)
	}
}

func TestAFinalErrorEndsABatch(t *testing.T) {
	t.Parallel()
	to := newCollector(sink.Forward)
	to.before = func(_ context.Context, b sink.Batch) error {
		switch b.Key {
		case "key--0":
			return sink.Final(sink.CrossNode, nodebinding.PermissionDenied, errDown)
		case "key--1":
			panic("a fault of the sink's")
		}
		return nil
	}
	o := options(t, to)
	var mu sync.Mutex
	reasons := map[sink.Reason]int{}
	o.Hooks.Attempted = func(a Attempt) {
		mu.Lock()
		defer mu.Unlock()
		if a.Err != nil {
			reasons[a.Err.Reason]++
		}
	}
	s := opened(t, o)
	running(t, s)
	appended(t, s, "", 0, 3)
	if diff := cmp.Diff([]string{"-2"}, to.await(t, 1)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[sink.Reason]int{sink.CrossNode: 1, sink.Internal: 1}, reasons); diff != "" {
		t.Errorf("reasons (-want +got):\n%s", diff)
	}
}

func TestTheLastQuarterIsForVerifiedCallers(t *testing.T) {
	t.Parallel()
	o := options(t, newCollector(sink.Log))
	o.Bytes = 64 << 10
	s := opened(t, o)
	fill := func(username string) int {
		for n := 0; n < 10_000; n++ {
			switch err := s.Append(t.Context(), batchOf(username, "x")); {
			case errors.Is(err, ErrFull):
				return n
			case err != nil:
				t.Fatal(err)
			}
		}
		t.Fatalf("ten thousand batches of %q are taken", username)
		return 0
	}
	tokenless := fill("")
	if used, quarter := s.Stats().Bytes, o.Bytes/4; used > 3*quarter || used < 3*quarter-1000 {
		t.Errorf("callers without a token fill %d of %d bytes", used, o.Bytes)
	}
	verified := fill("system:serviceaccount:gpu:monitor")
	if tokenless == 0 || verified == 0 || s.Stats().Bytes > o.Bytes {
		t.Errorf("%d batches without and %d with a token take %d bytes", tokenless, verified, s.Stats().Bytes)
	}
	if n := fill(""); n != 0 {
		t.Error("a full spool takes more")
	}
	running(t, s)
	if err := s.Drain(soon(t)); err != nil {
		t.Fatal(err)
	}
	appended(t, s, "", 0, 1)
}

func TestARecordIsDecidedAgain(t *testing.T) {
	t.Parallel()
	log, store := newCollector(sink.Log), newCollector(sink.Store)
	o := options(t, log, store)
	o.NodeUID = func() string { return "before" }
	s := opened(t, o)
	appended(t, s, "old-node", 0, 1)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	aside := map[Reason]int{}
	o.Hooks.Quarantined = func(r Reason) { mu.Lock(); aside[r]++; mu.Unlock() }
	o.NodeUID = func() string { return "now" }
	o.Decide = func(b sink.Batch) error {
		if b.Key == "key-bad-0" {
			return errors.New("names another node")
		}
		return nil
	}
	s = opened(t, o)
	running(t, s)
	appended(t, s, "bad", 0, 2)
	for _, c := range []*collector{log, store} {
		if diff := cmp.Diff([]string{"bad-1"}, c.await(t, 1)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
	if err := s.Drain(soon(t)); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if diff := cmp.Diff(map[Reason]int{ForeignNode: 1, Refused: 1}, aside); diff != "" {
		t.Errorf("put aside (-want +got):\n%s", diff)
	}
	if got := s.Stats().Aside; got != 2 {
		t.Errorf("%d records are kept aside, want 2", got)
	}
}

func TestEndings(t *testing.T) {
	t.Parallel()
	o := options(t, newCollector(sink.Log))
	s := opened(t, o)
	t.Run("a second process is refused", func(t *testing.T) {
		if _, err := Open(o); !errors.Is(err, ErrLocked) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("a caller who gives up gets its context's error", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := s.Append(ctx, batchOf("", "1")); err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("draining ends with its context", func(t *testing.T) {
		appended(t, s, "", 0, 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := s.Drain(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("a closed spool takes and delivers nothing", func(t *testing.T) {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if err := s.Append(t.Context(), batchOf("", "1")); !errors.Is(err, ErrClosed) {
			t.Errorf("got %v", err)
		}
		if err := s.Run(t.Context()); err == nil {
			t.Error("it runs")
		}
	})
	t.Run("closing ends a delivery that is under way", func(t *testing.T) {
		hangs := newCollector(sink.Store)
		began := make(chan struct{}, 1)
		hangs.before = func(ctx context.Context, _ sink.Batch) error {
			began <- struct{}{}
			<-ctx.Done()
			return ctx.Err()
		}
		s := opened(t, options(t, hangs))
		running(t, s)
		appended(t, s, "", 0, 1)
		<-began
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestOptionsMustBeComplete(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		spoil func(*Options)
		want  string
	}{
		"no directory":             {func(o *Options) { o.Directory = "" }, "no directory is given"},
		"no bound":                 {func(o *Options) { o.Bytes = 0 }, "no bound is given"},
		"no sink":                  {func(o *Options) { o.Sinks = nil }, "no sink is given"},
		"nobody who decides":       {func(o *Options) { o.Decide = nil }, "nobody decides about what is read"},
		"two sinks under one name": {func(o *Options) { o.Sinks = append(o.Sinks, o.Sinks[0]) }, "two sinks are named log"},
		"a parent that is missing": {func(o *Options) { o.Directory += "/missing/below" }, "make the spool's directory"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := options(t, newCollector(sink.Log))
			tc.spoil(&o)
			if _, err := Open(o); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v, want %q", err, tc.want)
			}
		})
	}
}

func TestPausesGrowToTheMost(t *testing.T) {
	t.Parallel()
	s := &Spool{o: Options{RetryMost: 30 * time.Second}, least: 100 * time.Millisecond}
	for failures, full := range map[int]time.Duration{
		1: 100 * time.Millisecond, 2: 200 * time.Millisecond, 5: 1600 * time.Millisecond, 20: 30 * time.Second, 1000: 30 * time.Second,
	} {
		for range 100 {
			if got := s.pause(failures); got < full/2 || got > full {
				t.Fatalf("pause after %d failures is %s, want %s to %s", failures, got, full/2, full)
			}
		}
	}
}
