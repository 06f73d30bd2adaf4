package spool

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	healtheventv1 "github.com/lanyard-k8s/lanyard/api/healthevent/v1"
	"github.com/lanyard-k8s/lanyard/api/healthevent/weight"
	"github.com/lanyard-k8s/lanyard/connector/nodebinding"
	"github.com/lanyard-k8s/lanyard/connector/sink"
)

// TestAStuckUserHoldsUpNoOther: processes without a token stand in an order by the user that they run as, also after a restart.
func TestAStuckUserHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	to := newCollector(sink.Log)
	to.before = func(_ context.Context, b sink.Batch) error {
		if b.User == "user 1" {
			return sink.Retry(sink.Throttled, errDown)
		}
		return nil
	}
	from := func(user, id string) sink.Batch {
		b := batchOf("", id)
		b.User = user
		return b
	}
	o := options(t, to)
	s := opened(t, o)
	must(t, s.Append(t.Context(), from("user 1", "stuck-1")))
	must(t, s.Append(t.Context(), from("user 2", "well-1")))
	must(t, s.Append(t.Context(), from("user 1", "stuck-2")))
	must(t, s.Close())
	s = opened(t, o)
	running(t, s)
	must(t, s.Append(t.Context(), from("user 2", "well-2")))
	must(t, s.Append(t.Context(), from("", "nobody")))
	got := to.await(t, 3)
	slices.Sort(got)
	if diff := cmp.Diff([]string{"nobody", "well-1", "well-2"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := to.batches[0].User; got == "" {
		t.Error("a record does not say whose it is")
	}
}

// many is a batch of so many events with nothing in them but what a connector fills in.
func many(username string, n int) sink.Batch {
	events := make([]*healtheventv1.HealthEvent, n)
	for i := range events {
		events[i] = &healtheventv1.HealthEvent{NodeName: "node-a"}
	}
	return sink.NewBatch(events, sink.Caller{Username: username}, nodebinding.NodeLocal, time.Unix(1_700_000_000, 0))
}

// TestARecordOfTooManyEventsIsPutAside: 3 MiB of empty events, which an older connector took in and which take 304 MiB when they are decoded,
// are kept in the quarantine, are no reason to die again at each start, and hold up nothing. It is not parallel: others would be measured along.
func TestARecordOfTooManyEventsIsPutAside(t *testing.T) {
	to := newCollector(sink.Log)
	o := options(t, to)
	o.Bytes = 64 << 20
	before := opened(t, o)
	must(t, before.Append(t.Context(), many("p", 300_000)))
	appended(t, before, "p", 0, 1)
	must(t, before.Close())
	aside := map[Reason]int{}
	var mu sync.Mutex
	o.Hooks.Quarantined = func(r Reason) { mu.Lock(); defer mu.Unlock(); aside[r]++ }
	var most atomic.Int64
	to.before = func(context.Context, sink.Batch) error { most.Store(allocated()); return nil }
	start := allocated()
	s := opened(t, o)
	stop := running(t, s)
	if diff := cmp.Diff([]string{"p-0"}, to.await(t, 1)); diff != "" {
		t.Errorf("delivered (-want +got):\n%s", diff)
	}
	stop()
	// The record's bytes are read twice at most, at the start and for the delivery.
	if took := most.Load() - start; took > 64<<20 {
		t.Errorf("%d bytes were allocated, want some times the record's 3 MiB", took)
	}
	if diff := cmp.Diff(map[Reason]int{TooLarge: 1}, aside); diff != "" {
		t.Errorf("counted (-want +got):\n%s", diff)
	}
	kept, err := Look(o.Directory)
	must(t, err)
	var excess *weight.Excess
	if len(kept) != 1 || !errors.As(kept[0].Err, &excess) || !strings.Contains(kept[0].Err.Error(), "at most 2048 events (limits.maxEvents)") {
		t.Errorf("kept: %v", kept)
	}
}

// poll returns when something is so, or after a time.
func poll(limit time.Duration, so func() bool) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for over := time.After(limit); !so(); {
		select {
		case <-tick.C:
		case <-over:
			return
		}
	}
}

// allocated is how much was allocated since the process began.
func allocated() int64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.TotalAlloc)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestLargeRecordsAreDeliveredOneAfterTheOther: what is decoded at a time is bounded in bytes; small records are not held up.
func TestLargeRecordsAreDeliveredOneAfterTheOther(t *testing.T) {
	t.Parallel()
	large := func(username string) sink.Batch {
		b := batchOf(username, username)
		b.Events[0].Message = strings.Repeat("x", 1<<20)
		return b
	}
	for name, tc := range map[string]struct {
		batch func(string) sink.Batch
		want  int64
	}{
		"a megabyte each": {large, 1},
		"a few bytes":     {func(username string) sink.Batch { return batchOf(username, username) }, 4},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			to := newCollector(sink.Log)
			var now, most atomic.Int64
			let := make(chan struct{})
			to.before = func(context.Context, sink.Batch) error {
				n := now.Add(1)
				defer now.Add(-1)
				for was := most.Load(); n > was && !most.CompareAndSwap(was, n); was = most.Load() {
				}
				<-let
				return nil
			}
			o := options(t, to)
			o.Bytes, o.Memory = 64<<20, 6<<20
			s := opened(t, o)
			running(t, s)
			for _, username := range []string{"a", "b", "c", "d"} {
				must(t, s.Append(t.Context(), tc.batch(username)))
			}
			poll(30*time.Second, func() bool { return most.Load() >= tc.want })
			poll(100*time.Millisecond, func() bool { return most.Load() > tc.want }) // others would come if they could
			close(let)
			to.await(t, 4)
			if got := most.Load(); got != tc.want {
				t.Errorf("%d records at a time, want %d", got, tc.want)
			}
		})
	}
}
