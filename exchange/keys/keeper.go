package keys

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"

	"github.com/lanyard-k8s/lanyard/internal/mint"
)

// Options make a Keeper.
type Options struct {
	// Alg is what new keys are for.
	Alg mint.Alg
	// Timing says when keys change places.
	Timing mint.Timing
	// Poll is how often the shelf is looked at; zero is a quarter of MaxAge, and 10 s at most. A key is published twice MaxAge before it
	// signs, so that no replica signs with what another does not yet publish.
	Poll time.Duration
	// Now is the clock; nil is the real one.
	Now func() time.Time
	Log logr.Logger
	// Rotated is told of each attempt to rotate and its outcome; nil is nobody.
	Rotated func(Outcome)
}

// Outcome is what came of an attempt to rotate. Its text is a metric label.
type Outcome string

// The outcomes.
const (
	Won    Outcome = "won"    // this replica put a new key there
	Lost   Outcome = "lost"   // another was faster
	Failed Outcome = "failed" // the shelf cannot be written
)

// Outcomes lists every outcome once.
func Outcomes() []Outcome { return []Outcome{Won, Lost, Failed} }

// Keeper has the keys at hand. Signing and publishing ask no shelf. Make one with NewKeeper.
type Keeper struct {
	shelf   Shelf
	options Options
	current atomic.Pointer[mint.Set]
	state   atomic.Pointer[State]
	unknown chan struct{} // somebody asked for a key that is not at hand

	mu       sync.Mutex // guards the rendered set
	rendered mint.Rendered
	of       string // the ids that it was rendered of
}

// NewKeeper is a keeper that has no keys yet: Refresh fetches them.
func NewKeeper(shelf Shelf, o Options) (*Keeper, error) {
	if shelf == nil {
		return nil, errors.New("keys: a shelf is needed")
	}
	if err := o.Timing.Validate(); err != nil {
		return nil, fmt.Errorf("keep the signing keys: %w", err)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Poll == 0 {
		o.Poll = min(o.Timing.MaxAge/4, 10*time.Second)
	}
	if o.Rotated == nil {
		o.Rotated = func(Outcome) {}
	}
	return &Keeper{shelf: shelf, options: o, unknown: make(chan struct{}, 1)}, nil
}

// Refresh takes over what stands on the shelf, and rotates if it is time. A shelf that can be read and not written has its say first: what
// was revoked there signs no more. An empty ring revokes nothing; where no key can be put into it, those at hand go on serving.
func (k *Keeper) Refresh(ctx context.Context) error {
	state, err := k.shelf.Read(ctx)
	if err != nil {
		return err
	}
	now := k.options.Now()
	var unusable error
	if len(state.Ring.Entries) > 0 {
		unusable = k.adopt(state, now)
	}
	if _, gone := state.Ring.Prune(now, k.options.Timing); !state.Ring.Due(now, k.options.Timing) && len(gone) == 0 {
		return unusable
	}
	if state, err = k.rotate(ctx, now); err != nil {
		return errors.Join(unusable, err)
	}
	return k.adopt(state, now)
}

// errSettled ends an update that finds nothing to do any more.
var errSettled = errors.New("settled")

// rotate adds the next key and drops those that are gone. Whoever comes second finds that nothing is due.
func (k *Keeper) rotate(ctx context.Context, now time.Time) (State, error) {
	added := false
	state, err := k.shelf.Update(ctx, func(s State) (State, error) {
		added = false
		ring, gone := s.Ring.Prune(now, k.options.Timing)
		for _, id := range gone {
			delete(s.Keys, id)
		}
		if ring.Due(now, k.options.Timing) {
			key, err := mint.Generate(k.options.Alg)
			if err != nil {
				return s, err
			}
			if ring, err = ring.Add(key.ID(), now, k.options.Timing); err != nil {
				return s, err
			}
			s.Keys[key.ID()], added = key, true
		} else if len(gone) == 0 {
			return s, errSettled
		}
		s.Ring = ring
		return s, nil
	})
	switch {
	case errors.Is(err, errSettled):
		k.options.Rotated(Lost)
		return state, nil
	case err != nil:
		k.options.Rotated(Failed)
		return state, fmt.Errorf("rotate the signing keys: %w", err)
	case added:
		k.options.Rotated(Won)
		k.options.Log.Info("a new signing key is published", "keys", state.Ring.States(now, k.options.Timing))
	}
	return state, nil
}

// adopt takes a state into use.
func (k *Keeper) adopt(state State, now time.Time) error {
	set, err := mint.NewSet(state.Ring, k.options.Timing, state.list(), now)
	if err != nil {
		return err
	}
	k.current.Store(set)
	k.state.Store(&state)
	return nil
}

// unknownEvery is how often the shelf is looked at for the sake of keys that are not at hand: whoever makes ids up asks for no more.
const unknownEvery = 2 * time.Second

// Run refreshes until ctx ends, sooner where a key is asked for that is not at hand: another replica may sign with it since somebody rotated
// by hand. Where the shelf cannot be read, the keys at hand go on serving.
func (k *Keeper) Run(ctx context.Context) error {
	tick := time.NewTicker(k.options.Poll)
	defer tick.Stop()
	var last string
	for {
		looked := time.Now()
		text := ""
		if err := k.Refresh(ctx); err != nil && ctx.Err() == nil {
			text = err.Error()
		}
		if text != "" && text != last {
			k.options.Log.Error(nil, "the signing keys cannot be refreshed; those at hand go on serving", "cause", text)
		}
		last = text
		select {
		case <-tick.C:
		case <-k.unknown:
			select {
			case <-time.After(unknownEvery - time.Since(looked)):
			case <-ctx.Done():
				return nil
			}
		case <-ctx.Done():
			return nil
		}
	}
}
