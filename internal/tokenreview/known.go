package tokenreview

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/maypok86/otter/v2"
	"k8s.io/utils/clock"
)

// entry is one remembered verdict. A review that confirms it replaces it.
type entry struct {
	verdict    Verdict
	confirmed  time.Time
	every      time.Duration // when it is reviewed again
	refreshing atomic.Bool
	failed     atomic.Int64 // when it was last tried in vain, in unix nanoseconds
}

// known remembers verdicts: a bounded number of them, few for one pod, each until its token's expiry. It has an index by pod,
// so that a pod's death takes its verdicts along.
type known struct {
	cache   *otter.Cache[key, *entry]
	options Options

	mu   sync.Mutex // never held while the cache is called, which calls back under its own locks
	pods map[string][]key
}

func newKnown(o Options) (*known, error) {
	k := &known{options: o, pods: map[string][]key{}}
	cache, err := otter.New(&otter.Options[key, *entry]{
		MaximumSize: o.MaxEntries,
		Clock:       ticks(o.Clock),
		ExpiryCalculator: otter.ExpiryWritingFunc(func(e otter.Entry[key, *entry]) time.Duration {
			return max(e.Value.verdict.Expiry.Sub(o.Clock.Now()), 1)
		}),
		OnAtomicDeletion: func(e otter.DeletionEvent[key, *entry]) {
			if e.Cause != otter.CauseReplacement {
				k.unlist(e.Value.verdict.PodUID, e.Key)
			}
		},
		Logger: &otter.NoopLogger{},
	})
	if err != nil {
		return nil, fmt.Errorf("making the cache of verdicts: %w", err)
	}
	k.cache = cache
	return k, nil
}

// get returns what is remembered; whether it still counts is the caller's to say.
func (k *known) get(id key) (*entry, bool) { return k.cache.GetIfPresent(id) }

// put remembers a verdict, at the cost of the pod's oldest if it has too many.
func (k *known) put(id key, v Verdict, now time.Time) {
	every := k.options.RefreshMin + rand.N(k.options.RefreshMax-k.options.RefreshMin+1)
	surplus := k.list(v.PodUID, id)
	k.cache.Set(id, &entry{verdict: v, confirmed: now, every: every})
	for _, old := range surplus {
		k.cache.Invalidate(old)
	}
}

// drop forgets one verdict.
func (k *known) drop(id key) { k.cache.Invalidate(id) }

// dropPod forgets all verdicts of a pod.
func (k *known) dropPod(uid string) {
	k.mu.Lock()
	ids := k.pods[uid]
	delete(k.pods, uid)
	k.mu.Unlock()
	for _, id := range ids {
		k.cache.Invalidate(id)
	}
}

// list enters a key under its pod and returns those that have to go for it.
func (k *known) list(uid string, id key) []key {
	if uid == "" {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	ids := k.pods[uid]
	if slices.Contains(ids, id) {
		return nil
	}
	ids = append(ids, id)
	surplus := slices.Clone(ids[:max(0, len(ids)-k.options.MaxPerPod)])
	k.pods[uid] = slices.Clone(ids[len(surplus):])
	return surplus
}

// unlist takes a key out of the index after it has left the cache.
func (k *known) unlist(uid string, id key) {
	k.mu.Lock()
	defer k.mu.Unlock()
	ids := slices.DeleteFunc(k.pods[uid], func(other key) bool { return other == id })
	if len(ids) == 0 {
		delete(k.pods, uid)
		return
	}
	k.pods[uid] = ids
}

// size is how many verdicts are remembered, and of how many pods.
func (k *known) size() (verdicts, pods int) {
	k.cache.CleanUp()
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.cache.EstimatedSize(), len(k.pods)
}

// newRefused remembers refusals, a bounded number for a short time. It is apart from the verdicts, so that a flood of bad
// tokens pushes out no good one.
func newRefused(o Options) (*otter.Cache[key, *Error], error) {
	cache, err := otter.New(&otter.Options[key, *Error]{
		MaximumSize: o.MaxNegative, Clock: ticks(o.Clock), Logger: &otter.NoopLogger{},
		ExpiryCalculator: otter.ExpiryWriting[key, *Error](o.NegativeFor),
	})
	if err != nil {
		return nil, fmt.Errorf("making the cache of refusals: %w", err)
	}
	return cache, nil
}

// ticker is a clock as otter wants it.
type ticker struct{ clock.WithTicker }

// ticks gives otter a clock; it knows the real one itself, and how to stop its ticker.
func ticks(c clock.WithTicker) otter.Clock {
	if _, ok := c.(clock.RealClock); ok {
		return nil
	}
	return ticker{c}
}

// NowNano is the time in unix nanoseconds.
func (t ticker) NowNano() int64 { return t.Now().UnixNano() }

// Tick is never received from under a fake clock that stands still, and then the caches clean up when they are written to.
func (t ticker) Tick(d time.Duration) <-chan time.Time { return t.NewTicker(d).C() }
