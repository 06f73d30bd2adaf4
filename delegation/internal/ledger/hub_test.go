package ledger

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"go.uber.org/goleak"

	"github.com/lanyard-k8s/lanyard/delegation"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestEveryReaderHearsEverything(t *testing.T) {
	t.Parallel()
	var h Hub
	defer h.Close()
	a, b := h.Changes(t.Context()), h.Changes(t.Context())
	h.Tell("x", "y")
	h.Tell("z")
	for _, reader := range []<-chan delegation.Change{a, b} {
		var got []string
		for range 4 {
			got = append(got, (<-reader).Row)
		}
		if !slices.Equal(got, []string{"", "x", "y", "z"}) {
			t.Errorf("heard %q", got)
		}
	}
}

// TestNobodyWaitsForAReader tells far more than a reader that does not read is kept; it learns that it has missed something.
func TestNobodyWaitsForAReader(t *testing.T) {
	t.Parallel()
	var h Hub
	defer h.Close()
	changes := h.Changes(t.Context())
	for i := range 5 * mostPending {
		h.Tell(fmt.Sprint(i))
	}
	h.Tell("last")
	heard, missed := 0, 0
	for c := range changes {
		heard++
		if c.Row == "" {
			missed++
		}
		if c.Row == "last" {
			break
		}
	}
	if missed < 2 || heard > 2*mostPending+2 {
		t.Errorf("heard %d changes, of which %d empty", heard, missed)
	}
}

func TestSubscriptionsEnd(t *testing.T) {
	t.Parallel()
	var h Hub
	ctx, cancel := context.WithCancel(t.Context())
	ended, open := h.Changes(ctx), h.Changes(t.Context())
	cancel()
	for range ended {
	}
	h.Close()
	for range open {
	}
	for range h.Changes(t.Context()) {
		t.Error("a closed hub told something")
	}
	h.Tell("x")
	h.Close()
}
