package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/lanyard-k8s/lanyard/client/internal/reach"
)

// The pause after a failed exchange, unless the exchange names one: it doubles from first to most, and half of it is random.
const (
	firstPause = time.Second
	mostPause  = 30 * time.Second
	// renewPause is how often a token that a server rejected is replaced: a server that rejects every token must not cause an
	// exchange for each request.
	renewPause = 30 * time.Second
)

// flight is an exchange under way; err is set when done is closed.
type flight struct {
	done chan struct{}
	err  error
}

// get returns a token that is still valid, or waits for one.
func (w *Workload) get(ctx context.Context) (held, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, w.o.Patience, errPatience)
	defer cancel()
	for {
		h, f, pause, err := w.look(ctx)
		if err != nil || f == nil && pause == 0 {
			return h, err
		}
		if err := w.await(ctx, f, pause); err != nil {
			return held{}, err
		}
	}
}

// look says what a caller does now: take a token, wait for a flight, or pause before the next one.
func (w *Workload) look(ctx context.Context) (held, *flight, time.Duration, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	switch {
	case w.closed:
		return held{}, nil, 0, ErrWorkloadClosed
	case w.now.valid(now):
		if !now.Before(w.now.refreshAt) && w.flight == nil && w.due(now) {
			w.start()
		}
		return w.now, nil, 0, nil
	case w.flight != nil:
		return held{}, w.flight, 0, nil
	case w.due(now):
		return held{}, w.start(), 0, nil
	}
	if until, ok := ctx.Deadline(); !Temporary(w.failure) || ok && until.Before(w.next) {
		return held{}, nil, 0, w.failure // waiting helps nothing
	}
	return held{}, nil, w.next.Sub(now), nil
}

// due says whether an exchange may start: there was no failure, its pause has passed, or it failed by a CA that has been replaced since.
func (w *Workload) due(now time.Time) bool {
	if w.failure == nil || !now.Before(w.next) {
		return true
	}
	trust, ok := w.o.Transport.(*reach.Transport)
	return ok && reach.Distrusted(w.failure) && trust.Look() != w.trusted
}

// await waits for a flight or for a pause to pass. A flight that failed for good is the caller's failure.
func (w *Workload) await(ctx context.Context, f *flight, pause time.Duration) error {
	var landed <-chan struct{}
	var passed <-chan time.Time
	if f != nil {
		landed = f.done
	} else {
		timer := time.NewTimer(pause)
		defer timer.Stop()
		passed = timer.C
	}
	select {
	case <-landed:
		if f.err != nil && !Temporary(f.err) {
			return f.err
		}
		return nil
	case <-passed:
		return nil
	case <-w.ctx.Done():
		return ErrWorkloadClosed
	case <-ctx.Done():
		w.mu.Lock()
		defer w.mu.Unlock()
		last := w.failure
		if last == nil {
			last = &ExchangeError{Step: StepExchange, Err: errors.New("no answer yet"), temporary: true}
		}
		return fmt.Errorf("%w: %w", context.Cause(ctx), last)
	}
}

// start begins an exchange. It goes on when those who wait for it give up: the next one needs it.
func (w *Workload) start() *flight {
	f := &flight{done: make(chan struct{})}
	w.flight = f
	w.flights.Go(func() {
		h, err := w.exchange(w.ctx)
		w.land(f, h, err)
		if err != nil && w.o.Failed != nil && w.ctx.Err() == nil {
			w.o.Failed(err)
		}
	})
	return f
}

// land records how an exchange ended.
func (w *Workload) land(f *flight, h held, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	defer close(f.done)
	w.flight, w.failure, f.err = nil, err, err
	if err == nil {
		w.now, w.failures, w.next = h, 0, time.Time{}
		return
	}
	if trust, ok := w.o.Transport.(*reach.Transport); ok {
		w.trusted = trust.InForce()
	}
	w.next = time.Now().Add(pauseAfter(err, w.failures))
	w.failures++
}

// pauseAfter is how long to leave the exchange alone after the nth failure in a row.
func pauseAfter(err error, n int) time.Duration {
	var e *ExchangeError
	if errors.As(err, &e) && e.retryAfter > 0 {
		return e.retryAfter + rand.N(e.retryAfter/10+1) // never earlier, and not all at once
	}
	pause := mostPause
	if n < 5 {
		pause = min(firstPause<<n, mostPause)
	}
	return pause/2 + rand.N(pause/2+1)
}

// renew replaces a token that a server has rejected. Whoever comes later with the same one gets what replaced it. While the
// exchange fails the rejected token stays: another server may take it.
func (w *Workload) renew(ctx context.Context, rejected string) (held, bool) {
	ctx, cancel := context.WithTimeout(ctx, w.o.Patience)
	defer cancel()
	h, f := w.replacement(rejected)
	if f == nil || w.await(ctx, f, 0) != nil {
		return h, h.token != nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now, w.now.valid(time.Now()) && !w.now.is(rejected)
}

// replacement is what has replaced a rejected token, or the flight that will bring it, or neither.
func (w *Workload) replacement(rejected string) (held, *flight) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	switch {
	case w.closed:
		return held{}, nil
	case w.now.valid(now) && !w.now.is(rejected):
		return w.now, nil
	case w.flight != nil:
		return held{}, w.flight
	case now.Before(w.next) || !w.renewed.IsZero() && now.Before(w.renewed.Add(renewPause)):
		return held{}, nil
	}
	w.renewed = now
	return held{}, w.start()
}

// ErrWorkloadClosed is what a Workload returns after Close.
var ErrWorkloadClosed = errors.New("the workload's identity is closed")
