package spool

import (
	"context"

	"github.com/lanyard-k8s/lanyard/connector/sink"
)

// Append makes a batch durable and returns nil when it is. When ctx ends first the batch may or may not be kept. Every
// error means that the caller should try again.
func (s *Spool) Append(ctx context.Context, b sink.Batch) error {
	r, err := s.newRequest(b)
	if err != nil {
		return err
	}
	if err := s.reserve(r, b.Caller.Verified()); err != nil {
		s.recycle(r)
		return err
	}
	defer s.appending.Done()
	select {
	case s.requests <- r:
	case <-ctx.Done():
		s.release(r)
		return ctx.Err()
	}
	select {
	case err := <-r.done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// reserve takes a batch's share of the bound. It is given back when the batch cannot be written, and otherwise with the
// segment that it is in.
func (s *Spool) reserve(r *request, verified bool) error {
	limit := s.o.Bytes
	if !verified {
		limit -= limit / 4
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return ErrClosed
	case s.used+r.charge > limit:
		return ErrFull
	}
	s.used += r.charge
	s.appending.Add(1)
	return nil
}

func (s *Spool) release(r *request) {
	s.mu.Lock()
	s.used -= r.charge
	s.mu.Unlock()
	s.recycle(r)
}
