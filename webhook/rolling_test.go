package webhook

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lanyard-k8s/lanyard/test/timing"
)

// endpoints is what a Service does: it leads new calls to a replica that says it is ready.
type endpoints struct {
	mu   sync.Mutex
	list []*replica
	next int
}

func (e *endpoints) pick() *replica {
	e.mu.Lock()
	defer e.mu.Unlock()
	for range e.list {
		e.next++
		if r := e.list[e.next%len(e.list)]; !r.desk.draining.Load() {
			return r
		}
	}
	return e.list[0]
}

func (e *endpoints) swap(old, next *replica) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i, r := range e.list {
		if r == old {
			e.list[i] = next
		}
	}
}

func TestRollingRestartFailsNoCall(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	const delay = 2 * time.Second // more than a busy machine takes from the choice of a replica to the call
	e := &endpoints{list: []*replica{serve(t, p, delay), serve(t, p, delay)}}
	c := client(p)
	defer c.CloseIdleConnections()
	body := ask{}.body()
	var calls atomic.Int64
	stop := make(chan struct{})
	var callers sync.WaitGroup
	for range 8 {
		callers.Go(func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(5 * time.Millisecond): // other tests need the processors, too
				}
				if _, err := call(c, e.pick().url, body); err != nil {
					t.Errorf("call %d failed: %v", calls.Load(), err)
					return
				}
				calls.Add(1)
			}
		})
	}
	for _, old := range append([]*replica(nil), e.list...) {
		next := serve(t, p, delay)
		if err := next.ready.Check(nil); err != nil {
			t.Error(err)
		}
		old.stop()
		timing.Next(t, time.Minute, "the replica ends", old.done)
		e.swap(old, next)
	}
	close(stop)
	callers.Wait()
	for _, r := range e.list {
		r.end(t)
	}
	t.Logf("%d calls over two restarts", calls.Load())
}
