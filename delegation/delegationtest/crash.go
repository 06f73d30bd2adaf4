package delegationtest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/lanyard-k8s/lanyard/delegation"
)

// Hammer writes to a store until it is killed, and prints what was acknowledged once it was: "put <name>" and "revoked <name>".
// seed keeps the rows of one run from those of another.
func Hammer(ctx context.Context, s delegation.Store, out io.Writer, seed string) error {
	if _, err := s.Confirm(ctx, Submission("hammer")); err != nil {
		return fmt.Errorf("confirm: %w", err)
	}
	for i := 0; ; i++ {
		r := PodRow("hammer", fmt.Sprintf("%s-%d", seed, i))
		if _, err := s.Put(ctx, r); err != nil {
			return fmt.Errorf("put: %w", err)
		}
		if _, err := fmt.Fprintln(out, "put", r.Name); err != nil {
			return fmt.Errorf("acknowledge: %w", err)
		}
		if i%3 != 0 {
			continue
		}
		if _, err := s.Revoke(ctx, delegation.Revocation{Row: r.Name, Reason: delegation.RowRevoked, At: At(1)}); err != nil {
			return fmt.Errorf("revoke: %w", err)
		}
		if _, err := fmt.Fprintln(out, "revoked", r.Name); err != nil {
			return fmt.Errorf("acknowledge: %w", err)
		}
	}
}

// Acknowledged is what a killed Hammer had printed: names, and whether they were revoked.
type Acknowledged map[string]bool

// Read reads what Hammer prints, up to the end or, if most is not zero, that many lines. A line that was cut off was not
// acknowledged.
func (a Acknowledged) Read(from *bufio.Reader, most int) int {
	lines := 0
	for most == 0 || lines < most {
		line, err := from.ReadString('\n')
		if err != nil {
			break
		}
		what, name, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		a[name] = a[name] || what == "revoked"
		lines++
	}
	return lines
}

// Check fails the test unless all that was acknowledged is in the store.
func (a Acknowledged) Check(t *testing.T, s delegation.Store) {
	t.Helper()
	for name, revoked := range a {
		got, err := s.Get(t.Context(), name)
		switch {
		case err != nil:
			t.Errorf("an acknowledged row is lost: %v", err)
		case revoked && got.Row.State != delegation.Revoked:
			t.Errorf("an acknowledged revocation is lost: the row is %s", got.Row.State)
		}
	}
}
