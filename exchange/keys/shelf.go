// Package keys keeps what the exchange must not lose and must not show: its signing keys, the ring that says which of them signs, and
// the mark of the database last used. They stand together on a Shelf, which is one named Secret, or a directory that nobody
// else can look into, and never a database.
//
//	keeper, err := keys.NewKeeper(shelf, options)
//	go keeper.Run(ctx)                 // follows the shelf, rotates when it is time
//	signer, err := keeper.Signer(now)
//
// Replicas share a shelf and agree by comparing and swapping: of several that rotate at once one wins, and the others take over what
// it has put there.
package keys

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/lanyard-k8s/lanyard/delegation"
	"github.com/lanyard-k8s/lanyard/internal/mint"
)

// State is what stands on a shelf. The zero State is an empty shelf.
type State struct {
	Ring mint.Ring
	// Keys are the ring's, by their ids.
	Keys map[string]mint.Key
	// Mark is the newest that the database was seen with.
	Mark delegation.Mark
}

// Shelf keeps one State. Its errors wrap ErrUnavailable, ErrUnsafe, or what package mint says of a key.
type Shelf interface {
	Read(ctx context.Context) (State, error)
	// Update reads, changes and writes, and does it again where somebody else was faster. It returns what stands then. The
	// change's own error ends it, and nothing is written.
	Update(ctx context.Context, change func(State) (State, error)) (State, error)
}

// Why a shelf cannot be used, for errors.Is.
var (
	// ErrUnavailable: it cannot be reached now; the same may be tried again.
	ErrUnavailable = errors.New("the signing keys cannot be reached")
	// ErrUnsafe: others could look into it, or it is not what it should be.
	ErrUnsafe = errors.New("the signing keys are not kept safely")
	// ErrDamaged: what stands there is no ring.
	ErrDamaged = errors.New("the signing keys' ring cannot be read")
	// ErrIncomplete: a key that the ring names is not there. A new one is not put in its place by itself, since tokens of the old one
	// may be alive.
	ErrIncomplete = errors.New("a signing key is missing; put its .pem back, or delete ring.json and every .pem, and new keys are made")
)

// The names of what stands on a shelf: keys of the Secret's data, or files.
const (
	ringName  = "ring.json"
	markName  = "mark.json"
	keySuffix = ".pem"
)

// encode is the state as names and contents.
func (s State) encode() (map[string][]byte, error) {
	out := map[string][]byte{}
	for id, key := range s.Keys {
		pem, err := key.PEM()
		if err != nil {
			return nil, err
		}
		out[id+keySuffix] = pem
	}
	for name, value := range map[string]any{ringName: s.Ring, markName: s.Mark} {
		text, err := json.Marshal(value, json.Deterministic(true))
		if err != nil {
			return nil, fmt.Errorf("write %s: %w", name, err)
		}
		out[name] = text
	}
	return out, nil
}

// decode reads a state. Every key must be one: a key that is weak, of another kind or damaged is found at the start, not when it is its
// turn to sign. Names that are not ours are left alone.
func decode(data map[string][]byte) (State, error) {
	s := State{Keys: map[string]mint.Key{}}
	for name, value := range map[string]any{ringName: &s.Ring, markName: &s.Mark} {
		text, ok := data[name]
		if !ok || len(text) == 0 {
			continue
		}
		if err := json.Unmarshal(text, value, json.RejectUnknownMembers(true)); err != nil {
			return State{}, fmt.Errorf("%w: %s", ErrDamaged, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(data)) {
		id, ok := strings.CutSuffix(name, keySuffix)
		if !ok {
			continue
		}
		key, err := mint.LoadAs(data[name], id)
		if err != nil {
			return State{}, fmt.Errorf("%s: %w", name, err)
		}
		s.Keys[id] = key
	}
	for _, e := range s.Ring.Entries {
		if _, ok := s.Keys[e.ID]; !ok && e.RevokedAt.IsZero() {
			return State{}, fmt.Errorf("%w: ring.json names %q", ErrIncomplete, e.ID)
		}
	}
	return s, nil
}

// clone is a copy whose map can be changed.
func (s State) clone() State {
	s.Keys = maps.Clone(s.Keys)
	if s.Keys == nil {
		s.Keys = map[string]mint.Key{}
	}
	return s
}

// list is the keys in the order of their ids.
func (s State) list() []mint.Key {
	out := make([]mint.Key, 0, len(s.Keys))
	for _, id := range slices.Sorted(maps.Keys(s.Keys)) {
		out = append(out, s.Keys[id])
	}
	return out
}
