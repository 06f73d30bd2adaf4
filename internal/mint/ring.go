package mint

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Timing is how keys are rotated.
type Timing struct {
	// MaxAge is how long verifiers keep a JWK set.
	MaxAge time.Duration
	// TTL is the longest life of a token, Leeway how far clocks may differ.
	TTL    time.Duration
	Leeway time.Duration
	// Retention is how long a key stays published after it has stopped signing.
	Retention time.Duration
	// Every is how long a key signs; zero means until somebody rotates.
	Every time.Duration
}

// lead is how long a key is published before it signs: one MaxAge for verifiers, another for replicas that see it late.
func (t Timing) lead() time.Duration { return 2 * t.MaxAge }

// Validate finds timings under which a verifier would meet a key that it cannot know.
func (t Timing) Validate() error {
	var errs []error
	if t.MaxAge <= 0 || t.TTL <= 0 || t.Leeway < 0 {
		errs = append(errs, errors.New("max-age and a token's life must be given"))
	}
	if t.Retention < t.TTL {
		errs = append(errs, fmt.Errorf("the keys' retention is %v; it must not be less than a token's life, %v, or valid tokens could not be verified", t.Retention, t.TTL))
	}
	if t.Every != 0 && t.Every <= t.lead() {
		errs = append(errs, fmt.Errorf("keys are rotated every %v; it must be more than twice max-age, %v, or a key would sign before it is known", t.Every, t.lead()))
	}
	return errors.Join(errs...)
}

// Entry is a key's place in a ring. What the key is doing follows from the times.
type Entry struct {
	ID          string    `json:"kid"`
	PublishedAt time.Time `json:"publishedAt"`
	SignsAt     time.Time `json:"signsAt"`
	// RevokedAt is set where the key is not to be trusted any more, whatever it has signed.
	RevokedAt time.Time `json:"revokedAt,omitzero"`
}

// State is what a key is doing.
type State string

// The states. Those of the first three are published.
const (
	Next    State = "next"    // published, signs later
	Active  State = "active"  // signs
	Retired State = "retired" // signs no more; its tokens may be alive
	Gone    State = "gone"    // none of its tokens is alive, or it was revoked
)

// Ring is the keys in the order in which they sign. It is kept where replicas compare and swap, so that one rotation wins; the rest is the
// same arithmetic everywhere. The zero Ring has no keys.
type Ring struct {
	Entries []Entry `json:"keys"`
}

// Why a ring is not changed.
var (
	// ErrPending: a key is published already and waits for its turn.
	ErrPending = errors.New("the next key is published already")
	// ErrSigning: the key signs; another must take its place first.
	ErrSigning = errors.New("the key signs; put another in its place at once (rotate-keys --now --revoke)")
	// ErrNoKey: there is no such key in the ring, or it is there already.
	ErrNoKey = errors.New("the key is not one of the ring's, or is there already")
)

// retiredAt is when the entry at i stopped signing: when the first after it began to. A key that was revoked before its turn never
// began. False if it has not happened and is not planned.
func (r Ring) retiredAt(i int) (time.Time, bool) {
	for _, later := range r.Entries[i+1:] {
		if later.RevokedAt.IsZero() || later.RevokedAt.After(later.SignsAt) {
			return later.SignsAt, true
		}
	}
	return time.Time{}, false
}

// state is what the entry at i is doing.
func (r Ring) state(i int, now time.Time, t Timing) State {
	e := r.Entries[i]
	retired, ends := r.retiredAt(i)
	switch {
	case !e.RevokedAt.IsZero():
		return Gone
	case now.Before(e.SignsAt):
		return Next
	case !ends || now.Before(retired):
		return Active
	case now.Before(retired.Add(t.Retention + t.Leeway)):
		return Retired
	default:
		return Gone
	}
}

// States is what each key is doing.
func (r Ring) States(now time.Time, t Timing) map[string]State {
	states := make(map[string]State, len(r.Entries))
	for i, e := range r.Entries {
		states[e.ID] = r.state(i, now, t)
	}
	return states
}

// Signing is the key that signs; false if none does.
func (r Ring) Signing(now time.Time) (string, bool) {
	for i := range r.Entries {
		if r.state(i, now, Timing{}) == Active {
			return r.Entries[i].ID, true
		}
	}
	return "", false
}

// Published are the keys for verifiers, in the order in which they sign.
func (r Ring) Published(now time.Time, t Timing) []string {
	var ids []string
	for i, e := range r.Entries {
		if r.state(i, now, t) != Gone {
			ids = append(ids, e.ID)
		}
	}
	return ids
}

// Due says whether it is time to add a key, so that it signs when the present one has signed for Every; also when nothing signs.
func (r Ring) Due(now time.Time, t Timing) bool {
	if r.pending(now) {
		return false
	}
	for i, e := range r.Entries {
		if r.state(i, now, t) == Active {
			return t.Every != 0 && !now.Before(e.SignsAt.Add(t.Every-t.lead()))
		}
	}
	return true
}

func (r Ring) pending(now time.Time) bool {
	return slices.ContainsFunc(r.Entries, func(e Entry) bool { return e.RevokedAt.IsZero() && now.Before(e.SignsAt) })
}

// Add publishes a key, which signs when everybody knows it, or at once where nothing signs. One key at a time may wait: whoever comes
// second in a race finds ErrPending.
func (r Ring) Add(id string, now time.Time, t Timing) (Ring, error) {
	if r.pending(now) {
		return r, ErrPending
	}
	signs := now.Add(t.lead())
	if _, ok := r.Signing(now); !ok {
		signs = now
	}
	return r.insert(Entry{ID: id, PublishedAt: now, SignsAt: signs})
}

// Replace publishes a key that signs at once, for an emergency. Verifiers that keep a set meet an unknown key and fetch anew.
func (r Ring) Replace(id string, now time.Time) (Ring, error) {
	return r.insert(Entry{ID: id, PublishedAt: now, SignsAt: now})
}

// insert keeps the order; what signs at the same time signs in the order of arrival.
func (r Ring) insert(e Entry) (Ring, error) {
	if !validKeyID(e.ID) || slices.ContainsFunc(r.Entries, func(old Entry) bool { return old.ID == e.ID }) {
		return r, ErrNoKey
	}
	at := 0
	for at < len(r.Entries) && !r.Entries[at].SignsAt.After(e.SignsAt) {
		at++
	}
	return Ring{Entries: slices.Insert(slices.Clone(r.Entries), at, e)}, nil
}

// Revoke takes a key out of what is published, at once and for good. Its tokens are refused as soon as verifiers fetch the set again.
func (r Ring) Revoke(id string, now time.Time) (Ring, error) {
	i := slices.IndexFunc(r.Entries, func(e Entry) bool { return e.ID == id })
	if i < 0 {
		return r, ErrNoKey
	}
	if signing, ok := r.Signing(now); ok && signing == id {
		return r, ErrSigning
	}
	changed := Ring{Entries: slices.Clone(r.Entries)}
	if changed.Entries[i].RevokedAt.IsZero() {
		changed.Entries[i].RevokedAt = now
	}
	return changed, nil
}

// Prune forgets keys that are gone. Their private parts can be deleted.
func (r Ring) Prune(now time.Time, t Timing) (kept Ring, gone []string) {
	for i, e := range r.Entries {
		if r.state(i, now, t) == Gone {
			gone = append(gone, e.ID)
		} else {
			kept.Entries = append(kept.Entries, e)
		}
	}
	return kept, gone
}
