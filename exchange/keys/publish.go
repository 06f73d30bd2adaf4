package keys

import (
	"strings"
	"time"

	"github.com/lanyard-k8s/lanyard/internal/mint"
)

// Signer is what signs now, or mint.ErrKeyMissing. Where nothing signs yet because another clock, ahead of ours, has put the first key in
// place, that key signs: it is published.
func (k *Keeper) Signer(now time.Time) (*mint.Signer, error) {
	set := k.current.Load()
	if set == nil {
		return nil, mint.ErrKeyMissing
	}
	signer, err := set.Signer(now)
	if err != nil {
		return set.Signer(now.Add(k.options.Timing.Leeway))
	}
	return signer, nil
}

// Lookup finds a published key. One that is not at hand is looked for on the shelf, for the next who asks.
func (k *Keeper) Lookup(id string, now time.Time) (mint.PublicKey, bool) {
	set := k.current.Load()
	if set == nil {
		return mint.PublicKey{}, false
	}
	key, ok := set.Lookup(id, now)
	if !ok {
		select {
		case k.unknown <- struct{}{}:
		default:
		}
	}
	return key, ok
}

// Check says why nothing can be signed now.
func (k *Keeper) Check() error {
	_, err := k.Signer(k.options.Now())
	return err
}

// MaxAge is how long verifiers may keep what JWKS returns.
func (k *Keeper) MaxAge() time.Duration { return k.options.Timing.MaxAge }

// JWKS is the set of published keys, rendered when it changes.
func (k *Keeper) JWKS(now time.Time) (mint.Rendered, error) {
	set := k.current.Load()
	if set == nil {
		return mint.Rendered{}, mint.ErrKeyMissing
	}
	published := set.Published(now)
	ids := make([]string, 0, len(published))
	for _, p := range published {
		ids = append(ids, p.ID)
	}
	of := strings.Join(ids, " ")
	k.mu.Lock()
	defer k.mu.Unlock()
	if of == k.of && of != "" {
		return k.rendered, nil
	}
	rendered, err := mint.JWKS(published)
	if err != nil {
		return mint.Rendered{}, err
	}
	k.rendered, k.of = rendered, of
	return rendered, nil
}

// States counts the keys by what they are doing, for metrics.
func (k *Keeper) States(now time.Time) map[mint.State]int {
	out := map[mint.State]int{}
	if s := k.state.Load(); s != nil {
		for _, what := range s.Ring.States(now, k.options.Timing) {
			out[what]++
		}
	}
	return out
}

// Age is for how long the key that signs has done so, by the keeper's own clock; zero where none does.
func (k *Keeper) Age() time.Duration {
	s, now := k.state.Load(), k.options.Now()
	if s == nil {
		return 0
	}
	states := s.Ring.States(now, k.options.Timing)
	for _, e := range s.Ring.Entries {
		if states[e.ID] == mint.Active {
			return max(now.Sub(e.SignsAt), 0)
		}
	}
	return 0
}

// StatesNow is States by the keeper's own clock.
func (k *Keeper) StatesNow() map[mint.State]int { return k.States(k.options.Now()) }
