package waiting_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/lanyard-k8s/lanyard/delegation"
	"github.com/lanyard-k8s/lanyard/exchange/waiting"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// enter takes a seat that there must be.
func enter(t *testing.T, r *waiting.Room, row string) *waiting.Seat {
	t.Helper()
	s, err := r.Enter(row)
	if err != nil {
		t.Fatalf("enter for %q: %v", row, err)
	}
	return s
}

func TestAJudgementBetweenTheSeatAndTheWaitIsNotMissed(t *testing.T) {
	t.Parallel()
	r := waiting.New(2, 4)
	s := enter(t, r, "a")
	defer s.Leave()
	r.Judged("a")
	r.Judged("a")
	if err := s.Wait(t.Context()); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Wait(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v: two judgements before one look count once", err)
	}
}

func TestWhoIsWoken(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		judged string
		want   map[string]bool
	}{
		"the row's own":                      {"a", map[string]bool{"a": true}},
		"nobody by a row that nobody awaits": {"c", map[string]bool{}},
		"all by a change that was missed":    {"", map[string]bool{"a": true, "b": true}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := waiting.New(2, 4)
				seats := map[string]*waiting.Seat{"a": enter(t, r, "a"), "b": enter(t, r, "b")}
				r.Judged(tc.judged)
				for row, s := range seats {
					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					if woken := s.Wait(ctx) == nil; woken != tc.want[row] {
						t.Errorf("%s woken: %v", row, woken)
					}
					cancel()
					s.Leave()
				}
			})
		})
	}
}

func TestSeatsAreBounded(t *testing.T) {
	t.Parallel()
	r := waiting.New(2, 3)
	first, second := enter(t, r, "a"), enter(t, r, "a")
	if _, err := r.Enter("a"); !errors.Is(err, waiting.ErrFull) {
		t.Errorf("a third seat of one row: %v", err)
	}
	other := enter(t, r, "b")
	if _, err := r.Enter("c"); !errors.Is(err, waiting.ErrFull) {
		t.Errorf("a fourth seat in all: %v", err)
	}
	first.Leave()
	first.Leave() // a second time changes nothing
	if got := r.Taken(); got != 2 {
		t.Errorf("%d seats are taken", got)
	}
	enter(t, r, "a").Leave()
	second.Leave()
	other.Leave()
	if got := r.Taken(); got != 0 {
		t.Errorf("%d seats are taken at the end", got)
	}
}

// notifier is a store that tells of what it is given.
type notifier chan delegation.Change

func (n notifier) Changes(context.Context) <-chan delegation.Change { return n }

func TestFollow(t *testing.T) {
	t.Parallel()
	r := waiting.New(2, 4)
	s := enter(t, r, "a")
	defer s.Leave()
	n := make(notifier, 1)
	n <- delegation.Change{Row: "a"}
	close(n)
	if err := r.Follow(t.Context(), n); err != nil {
		t.Error(err)
	}
	if err := s.Wait(t.Context()); err != nil {
		t.Error(err)
	}
}
