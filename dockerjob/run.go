package dockerjob

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

// How long Run waits before it asks an Engine again that went away.
const (
	firstPause = 100 * time.Millisecond
	lastPause  = 5 * time.Second
)

// collectEvery is how often old records are deleted.
const collectEvery = time.Hour

// Run compares containers with rows, listens for containers that end, renews rows, and begins again whenever the Engine was away.
// It returns nil once ctx has ended and everything that it began has stopped. Jobs go on: the next Run takes them over.
func (b *Backend) Run(ctx context.Context) error {
	b.mu.Lock()
	if b.closing || b.life != nil {
		b.mu.Unlock()
		return errors.New("dockerjob: Run runs once")
	}
	b.mu.Unlock()
	// What has begun may finish a call that is under way, and begins no other.
	life, cancel := context.WithCancel(ctx)
	defer func() {
		b.mu.Lock()
		b.closing, b.ready = true, ErrClosed
		b.mu.Unlock()
		cancel()
		b.work.Wait()
	}()
	collected := time.Time{}
	for pause := firstPause; ctx.Err() == nil; {
		began := time.Now()
		err := b.follow(ctx, life, &collected)
		if ctx.Err() != nil {
			return nil
		}
		b.unready(err)
		b.log.Error(err, "containers cannot be compared with rows; trying again")
		if time.Since(began) > lastPause {
			pause = firstPause
		}
		// The pause is random, so that several programs do not ask an Engine that starts all at once.
		if !sleep(ctx, pause/2+rand.N(pause/2)) {
			return nil
		}
		pause = min(2*pause, lastPause)
	}
	return nil
}

// follow listens, compares once it does, so that nothing happens unseen in between, and goes on until the Engine goes away.
func (b *Backend) follow(ctx, life context.Context, collected *time.Time) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	pinging, pinged := b.limited(ctx)
	err := b.engine.Ping(pinging)
	pinged()
	if err != nil {
		return err
	}
	ended, failed := b.engine.ends(ctx, b.s.Instance)
	if err := b.compare(ctx, life); err != nil {
		return err
	}
	tick := time.NewTicker(b.s.Resync)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-failed:
			return err
		case id := <-ended:
			b.look(id)
		case <-tick.C:
			if err := b.compare(ctx, life); errors.Is(err, ErrEngine) {
				return err
			}
			if b.now().Sub(*collected) >= collectEvery {
				*collected = b.now()
				b.collect(ctx)
			}
		}
	}
}

// compare is reconcile, counted; from the first time on that there was something to compare the backend takes jobs, whatever a single row
// is like.
func (b *Backend) compare(ctx, life context.Context) error {
	partly, err := b.reconcile(ctx, life)
	switch {
	case err == nil:
		b.metrics.compared.WithLabelValues(comparison(partly)).Inc()
		b.metrics.engine.Set(1)
		b.mu.Lock()
		if !b.closing {
			b.ready, b.life = nil, life
		}
		b.mu.Unlock()
	case errors.Is(err, ErrStore):
		b.metrics.compared.WithLabelValues(comparedStore).Inc()
		b.log.Error(err, "compare containers with rows")
	case ctx.Err() == nil:
		b.metrics.compared.WithLabelValues(comparedEngine).Inc()
	}
	return err
}

// comparison is what one came to that was not kept from being made.
func comparison(partly error) string {
	switch {
	case partly == nil:
		return comparedOK
	case errors.Is(partly, ErrStore):
		return comparedStore
	default:
		return comparedPartly
	}
}

// unready notes why no jobs are taken.
func (b *Backend) unready(err error) {
	if !errors.Is(err, ErrStore) {
		b.metrics.engine.Set(0)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ready = err
}
