package mint

import (
	"fmt"
	"time"
)

// Set is a ring with its keys. It does not change; whoever keeps the ring makes a new Set when the ring does.
type Set struct {
	ring    Ring
	timing  Timing
	signers map[string]*Signer
	public  map[string]PublicKey
}

// NewSet makes a set. Each key that the ring names and that is not gone must be there.
func NewSet(r Ring, t Timing, keys []Key, now time.Time) (*Set, error) {
	if err := t.Validate(); err != nil {
		return nil, fmt.Errorf("arrange the signing keys: %w", err)
	}
	s := &Set{ring: r, timing: t, signers: map[string]*Signer{}, public: map[string]PublicKey{}}
	for _, k := range keys {
		signer, err := NewSigner(k)
		if err != nil {
			return nil, err
		}
		s.signers[k.id], s.public[k.id] = signer, k.Public()
	}
	for _, id := range r.Published(now, t) {
		if s.signers[id] == nil {
			return nil, fmt.Errorf("arrange the signing keys: %w: the ring names %q", ErrKeyMissing, id)
		}
	}
	return s, nil
}

// Signer is what signs now; ErrKeyMissing if nothing does.
func (s *Set) Signer(now time.Time) (*Signer, error) {
	id, ok := s.ring.Signing(now)
	if !ok || s.signers[id] == nil {
		return nil, ErrKeyMissing
	}
	return s.signers[id], nil
}

// Published are the keys for verifiers.
func (s *Set) Published(now time.Time) []PublicKey {
	var keys []PublicKey
	for _, id := range s.ring.Published(now, s.timing) {
		keys = append(keys, s.public[id])
	}
	return keys
}

// Lookup finds a published key by its id, for a Verifier of our own tokens.
func (s *Set) Lookup(id string, now time.Time) (PublicKey, bool) {
	for i, e := range s.ring.Entries {
		if e.ID == id && s.ring.state(i, now, s.timing) != Gone {
			k, ok := s.public[id]
			return k, ok
		}
	}
	return PublicKey{}, false
}
