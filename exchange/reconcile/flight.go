package reconcile

import (
	"context"
	"sync"
)

// flights share live reads. What fresh returns was read by a question that was asked after fresh was called: those who ask while a
// read is under way share the next one. So a thousand pods of one job need few reads of the job, and none is older than the pod.
type flights[K comparable, V any] struct {
	mu      sync.Mutex
	base    context.Context // of the leader's term: reads end with it
	reading sync.WaitGroup
	running map[K]*flight[V]
	waiting map[K]*flight[V]
}

type flight[V any] struct {
	done  chan struct{}
	found V
	err   error
}

// begin allows reads until ctx ends; wait then waits for them.
func (f *flights[K, V]) begin(ctx context.Context) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.base, f.running, f.waiting = ctx, map[K]*flight[V]{}, map[K]*flight[V]{}
}

func (f *flights[K, V]) wait() { f.reading.Wait() }

// fresh reads what k names, or shares a read of it that begins after now.
func (f *flights[K, V]) fresh(ctx context.Context, k K, read func(context.Context, K) (V, error)) (V, error) {
	f.mu.Lock()
	one := f.waiting[k]
	if one == nil {
		one = &flight[V]{done: make(chan struct{})}
		if f.running[k] != nil {
			f.waiting[k] = one
		} else {
			f.running[k] = one
			f.reading.Go(func() { f.fly(f.base, k, one, read) })
		}
	}
	f.mu.Unlock()
	select {
	case <-one.done:
		return one.found, one.err
	case <-ctx.Done():
		var none V
		return none, ctx.Err()
	}
}

// fly reads, and then once more for those who have come meanwhile.
func (f *flights[K, V]) fly(ctx context.Context, k K, one *flight[V], read func(context.Context, K) (V, error)) {
	for one != nil {
		limited, cancel := context.WithTimeout(ctx, callTimeout)
		one.found, one.err = read(limited, k)
		cancel()
		close(one.done)
		f.mu.Lock()
		one = f.waiting[k]
		delete(f.waiting, k)
		if f.running[k] = one; one == nil {
			delete(f.running, k)
		}
		f.mu.Unlock()
	}
}
