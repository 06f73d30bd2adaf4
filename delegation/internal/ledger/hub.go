package ledger

import (
	"context"
	"sync"

	"github.com/lanyard-k8s/lanyard/delegation"
)

// mostPending is how many changes are kept for a reader that does not read; beyond it they become the empty change.
const mostPending = 1024

// Hub hands changes to whoever reads them. The zero Hub is ready. Nobody who tells ever waits for a reader.
type Hub struct {
	mu      sync.Mutex
	readers map[*reader]struct{}
	stop    chan struct{}
	closed  bool
	done    sync.WaitGroup
}

// reader is one subscription: what it has yet to be sent, and a bell.
type reader struct {
	pending []string
	bell    chan struct{}
}

// Changes subscribes until ctx ends or the hub is closed. The first value is the empty change.
func (h *Hub) Changes(ctx context.Context) <-chan delegation.Change {
	out := make(chan delegation.Change)
	r := &reader{pending: []string{""}, bell: make(chan struct{}, 1)}
	r.bell <- struct{}{}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		close(out)
		return out
	}
	if h.readers == nil {
		h.readers, h.stop = map[*reader]struct{}{}, make(chan struct{})
	}
	h.readers[r] = struct{}{}
	h.done.Go(func() {
		defer close(out)
		h.serve(ctx, r, out)
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.readers, r)
	})
	return out
}

func (h *Hub) serve(ctx context.Context, r *reader, out chan<- delegation.Change) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-h.stop:
			return
		case <-r.bell:
		}
		h.mu.Lock()
		names := r.pending
		r.pending = nil
		h.mu.Unlock()
		for _, name := range names {
			select {
			case <-ctx.Done():
				return
			case <-h.stop:
				return
			case out <- delegation.Change{Row: name}:
			}
		}
	}
}

// Tell hands every reader these names; the empty name tells that something may have been missed.
func (h *Hub) Tell(names ...string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for r := range h.readers {
		if len(r.pending)+len(names) > mostPending {
			r.pending = []string{""}
		} else {
			r.pending = append(r.pending, names...)
		}
		select {
		case r.bell <- struct{}{}:
		default:
		}
	}
}

// Close ends every subscription and waits for their goroutines.
func (h *Hub) Close() {
	h.mu.Lock()
	if !h.closed && h.stop != nil {
		close(h.stop)
	}
	h.closed = true
	h.mu.Unlock()
	h.done.Wait()
}
