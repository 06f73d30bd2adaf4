//go:build unix

package house

import (
	"context"
	"fmt"
	"testing"
	"time"
)

const (
	// patience is what anything may take on a machine that is busy with other things, and for some minutes gets to none of them.
	patience = 5 * time.Minute
	interval = 100 * time.Millisecond
)

// Eventually waits until f returns nil. After five minutes the test fails, with what was waited for and f's last error.
func Eventually(t *testing.T, what string, f func(ctx context.Context) error) {
	t.Helper()
	Within(t, patience, what, f)
}

// Within is Eventually with another limit.
func Within(t *testing.T, limit time.Duration, what string, f func(ctx context.Context) error) {
	t.Helper()
	if err := await(t.Context(), limit, what, f); err != nil {
		t.Fatal(err)
	}
}

func (h *House) await(ctx context.Context, what string, f func(ctx context.Context) error) error {
	return await(ctx, patience, what, f)
}

func await(ctx context.Context, limit time.Duration, what string, f func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(interval)
	defer tick.Stop()
	var last error
	for {
		err := f(ctx)
		if err == nil {
			return nil
		}
		if last == nil || ctx.Err() == nil {
			last = err // one that the limit itself has cut off says nothing
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("waited %s for %s; the last answer was: %w", limit, what, last)
		}
	}
}
