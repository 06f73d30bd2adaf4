package keys

import (
	"context"
	"fmt"
	"time"

	"github.com/lanyard-k8s/lanyard/internal/mint"
)

// Change is what `exchange rotate-keys` asks for.
type Change struct {
	// Now puts a new key in place at once; otherwise it waits until every verifier can know it.
	Now bool
	// Revoke is the id of a key to take out of what is published; empty is none. Without Now, no key is added.
	Revoke string
}

// Apply changes the ring by hand, and returns it with the id of the new key, if there is one.
func Apply(ctx context.Context, shelf Shelf, alg mint.Alg, t mint.Timing, c Change, now time.Time) (mint.Ring, string, error) {
	var added string
	state, err := shelf.Update(ctx, func(s State) (State, error) {
		added = ""
		if c.Now || c.Revoke == "" {
			key, err := mint.Generate(alg)
			if err != nil {
				return s, err
			}
			if c.Now {
				s.Ring, err = s.Ring.Replace(key.ID(), now)
			} else {
				s.Ring, err = s.Ring.Add(key.ID(), now, t)
			}
			if err != nil {
				return s, err
			}
			s.Keys[key.ID()], added = key, key.ID()
		}
		if c.Revoke == "" {
			return s, nil
		}
		ring, err := s.Ring.Revoke(c.Revoke, now)
		if err != nil {
			return s, err
		}
		s.Ring = ring
		delete(s.Keys, c.Revoke)
		return s, nil
	})
	if err != nil {
		return state.Ring, "", fmt.Errorf("change the signing keys: %w", err)
	}
	return state.Ring, added, nil
}
