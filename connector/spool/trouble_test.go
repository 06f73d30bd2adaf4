package spool

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lanyard-k8s/lanyard/api/healthevent/weight"
	"github.com/lanyard-k8s/lanyard/connector/nodebinding"
	"github.com/lanyard-k8s/lanyard/connector/sink"
)

func TestWhenARecordIsHopeless(t *testing.T) {
	t.Parallel()
	const attempts, after = 3, 10 * time.Second
	// There is a failure every five seconds.
	for name, tc := range map[string]struct {
		failures []sink.Reason
		others   int // taken between two failures
		want     bool
	}{
		"often and long enough":                          {failures: []sink.Reason{sink.Internal, sink.Internal, sink.Internal}, want: true},
		"long enough, not often":                         {failures: []sink.Reason{sink.Internal, sink.Internal}},
		"a right that was missing meanwhile":             {failures: []sink.Reason{sink.Internal, sink.Internal, sink.Unauthorized, sink.Internal, sink.Internal}},
		"the count starts anew after that":               {failures: []sink.Reason{sink.Busy, sink.Internal, sink.Internal, sink.Internal}, want: true},
		"an outage":                                      {failures: []sink.Reason{sink.Unreachable, sink.Timeout, sink.Unreachable, sink.Unreachable, sink.Unreachable}},
		"an outage in between, and nobody else is taken": {failures: []sink.Reason{sink.Internal, sink.Unreachable, sink.Internal, sink.Internal}},
		"it ends the other side, which takes others":     {failures: []sink.Reason{sink.Unreachable, sink.Unreachable, sink.Unreachable, sink.Unreachable}, others: 1, want: true},
		"the others are few":                             {failures: []sink.Reason{sink.Timeout, sink.Timeout, sink.Timeout}, others: 1},
		"throttled for ever":                             {failures: []sink.Reason{sink.Throttled, sink.Throttled, sink.Throttled, sink.Throttled}, others: 9},
		"a conflict for ever":                            {failures: []sink.Reason{sink.Conflict, sink.Conflict, sink.Conflict, sink.Conflict}, others: 9},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var tr trouble
			now, taken := time.Unix(1_700_000_000, 0), int64(7)
			got := false
			for _, why := range tc.failures {
				tr.count(why, now, taken)
				if got = tr.hopeless(attempts, after, now, taken); tr.hopeless(0, 0, now, taken) {
					t.Error("given up although that is turned off")
				}
				now, taken = now.Add(5*time.Second), taken+int64(tc.others)
			}
			if got != tc.want {
				t.Errorf("hopeless is %v, want %v", got, tc.want)
			}
		})
	}
	tr := trouble{}
	for range 100 {
		tr.count(sink.Internal, time.Unix(1, 0), 0)
	}
	if tr.hopeless(attempts, after, time.Unix(1, 0), 0) {
		t.Error("a hundred attempts in no time are enough")
	}
}

// poisoned fails on the batch "poison" until it is mended, and tells of each attempt.
func poisoned(name sink.Name) (to *collector, tried chan struct{}, attempts *atomic.Int64, isMended *atomic.Bool) {
	var count atomic.Int64
	var mended atomic.Bool
	c, told := newCollector(name), make(chan struct{}, 100)
	c.before = func(_ context.Context, b sink.Batch) error {
		if b.Events[0].GetId() == "poison" && !mended.Load() {
			count.Add(1)
			select {
			case told <- struct{}{}:
			default:
			}
			return sink.Retry(sink.Internal, errDown)
		}
		return nil
	}
	return c, told, &count, &mended
}

func TestAPoisonedBatchIsPutAsideForItsSinkAlone(t *testing.T) {
	t.Parallel()
	fails, _, attempts, mended := poisoned(sink.Forward)
	works := newCollector(sink.Log)
	var mu sync.Mutex
	aside := map[Reason]int{}
	o := options(t, works, fails)
	o.GiveUpAttempts, o.GiveUpAfter = 4, time.Millisecond
	o.Hooks.Quarantined = func(r Reason) { mu.Lock(); aside[r]++; mu.Unlock() }
	s := opened(t, o)
	stop := running(t, s)
	for _, id := range []string{"before", "poison", "after"} {
		if err := s.Append(t.Context(), batchOf("p", id)); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]string{"before", "after"}, fails.await(t, 2)); diff != "" {
		t.Errorf("the sink that fails (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"before", "poison", "after"}, works.await(t, 3)); diff != "" {
		t.Errorf("the other sink (-want +got):\n%s", diff)
	}
	if err := s.Drain(soon(t)); err != nil {
		t.Fatal(err)
	}
	stop()
	if diff := cmp.Diff(map[Reason]int{GivenUp: 1}, aside); diff != "" || attempts.Load() < 4 || s.Stats().Aside != 1 {
		t.Errorf("after %d attempts %d files are kept; put aside (-want +got):\n%s", attempts.Load(), s.Stats().Aside, diff)
	}
	kept, err := filepath.Glob(filepath.Join(o.Directory, asideFolder, "*"))
	if err != nil || len(kept) != 1 || !strings.HasSuffix(kept[0], ".forward.record") {
		t.Fatalf("kept %v (%v)", kept, err)
	}
	raw, err := os.ReadFile(kept[0])
	if err != nil {
		t.Fatal(err)
	}
	h, err := readHead(raw)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := h.readBatch(weight.Bounds{}); err != nil || len(b.Events) != 1 || b.Events[0].GetId() != "poison" || b.Caller.Username != "p" {
		t.Errorf("the file holds %v (%v)", b, err)
	}
	seen, err := Look(o.Directory) // while the spool is open
	if err != nil || len(seen) != 1 || seen[0].Err != nil || seen[0].Batch.Events[0].GetId() != "poison" || seen[0].Batch.Caller.Username != "p" {
		t.Errorf("shown: %+v (%v)", seen, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	mended.Store(true)
	again := opened(t, o)
	running(t, again)
	if err := again.Append(t.Context(), batchOf("p", "later")); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"before", "after", "later"}, fails.await(t, 3)); diff != "" {
		t.Errorf("what was put aside is not delivered later (-want +got):\n%s", diff)
	}
	if again.Stats().Aside != 1 {
		t.Errorf("%d files are kept after the restart", again.Stats().Aside)
	}
}

// TestWithoutRoomNothingIsDropped has no room for what is put aside, then a disk that fails, then a half-written file.
func TestWithoutRoomNothingIsDropped(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(t *testing.T, s *Spool, d *faulty, on bool){
		"no more files may be kept": func(_ *testing.T, s *Spool, _ *faulty, on bool) {
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.aside.files = 0; on {
				s.aside.files = asideFiles
			}
		},
		"the disk fails": func(_ *testing.T, _ *Spool, d *faulty, on bool) { d.unsynced.Store(on) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fails, tried, _, mended := poisoned(sink.Forward)
			o := options(t, fails)
			o.GiveUpAttempts, o.GiveUpAfter = 1, time.Nanosecond
			o.Hooks.Quarantined = func(r Reason) { t.Errorf("put aside: %s", r) }
			if err := o.complete(); err != nil {
				t.Fatal(err)
			}
			root, err := openRoot(o.Directory)
			if err != nil {
				t.Fatal(err)
			}
			d := &faulty{disk: root}
			s, err := open(o, d)
			if err != nil {
				t.Fatal(errors.Join(err, root.close()))
			}
			s.least = time.Millisecond
			t.Cleanup(func() {
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
			for _, id := range []string{"poison", "after"} {
				if err := s.Append(t.Context(), batchOf("p", id)); err != nil {
					t.Fatal(err)
				}
			}
			spoil(t, s, d, true)
			running(t, s)
			last := time.After(20 * time.Second)
			for range 5 {
				select {
				case <-tried:
				case <-last:
					t.Fatal("it is not offered again")
				}
			}
			mended.Store(true)
			if diff := cmp.Diff([]string{"poison", "after"}, fails.await(t, 2)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			left, err := filepath.Glob(filepath.Join(o.Directory, asideFolder, "*"))
			if err != nil || len(left) != 0 {
				t.Errorf("left behind: %v (%v)", left, err)
			}
		})
	}
}

func TestAHalfWrittenFileIsRemovedAtTheStart(t *testing.T) {
	t.Parallel()
	o := options(t, newCollector(sink.Log))
	s := opened(t, o)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	half := filepath.Join(o.Directory, asideFolder, "x.record"+partExt)
	if err := os.WriteFile(half, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	again := opened(t, o)
	if _, err := os.Stat(half); !errors.Is(err, os.ErrNotExist) || again.Stats().Aside != 0 {
		t.Errorf("the file is there still (%v), %d are counted", err, again.Stats().Aside)
	}
}

func TestWhatIsRefusedForGoodIsNotPutAside(t *testing.T) {
	t.Parallel()
	to := newCollector(sink.Log)
	to.before = func(_ context.Context, b sink.Batch) error {
		if b.Events[0].GetId() == "bad" {
			return sink.Final(sink.Refused, nodebinding.InvalidArgument, errDown)
		}
		return nil
	}
	o := options(t, to)
	o.GiveUpAttempts, o.GiveUpAfter = 1, time.Nanosecond
	o.Hooks.Quarantined = func(r Reason) { t.Errorf("what is refused for good is put aside: %s", r) }
	s := opened(t, o)
	running(t, s)
	for _, id := range []string{"bad", "good"} {
		if err := s.Append(t.Context(), batchOf("p", id)); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]string{"good"}, to.await(t, 1)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
