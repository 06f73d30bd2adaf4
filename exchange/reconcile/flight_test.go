package reconcile

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestFlightsAreNeverOlderThanTheQuestion has many ask at once: every answer was begun after its question, and few are made.
func TestFlightsAreNeverOlderThanTheQuestion(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var f flights[string, time.Time]
		f.begin(t.Context())
		reads := 0
		read := func(context.Context, string) (time.Time, error) {
			reads++
			begun := time.Now()
			<-time.After(10 * time.Millisecond)
			return begun, nil
		}
		var all sync.WaitGroup
		for i := range 100 {
			all.Go(func() {
				<-time.After(time.Duration(i) * time.Millisecond)
				asked := time.Now()
				begun, err := f.fresh(t.Context(), "k", read)
				if err != nil || begun.Before(asked) {
					t.Errorf("asked at %s, answered from %s, %v", asked, begun, err)
				}
			})
		}
		all.Wait()
		f.wait()
		if reads > 13 {
			t.Errorf("%d reads for 100 questions in a tenth of a second", reads)
		}
	})
}

func TestFlightsEndWithTheirTerm(t *testing.T) {
	t.Parallel()
	var f flights[int, int]
	term, end := context.WithCancel(t.Context())
	f.begin(term)
	read := func(ctx context.Context, _ int) (int, error) { <-ctx.Done(); return 0, ctx.Err() }
	asker, leave := context.WithCancel(t.Context())
	leave()
	if _, err := f.fresh(asker, 1, read); !errors.Is(err, context.Canceled) {
		t.Errorf("one who has left: %v", err)
	}
	end()
	f.wait()
	if _, err := f.fresh(t.Context(), 1, read); !errors.Is(err, context.Canceled) {
		t.Errorf("after the term: %v", err)
	}
	f.wait()
}
