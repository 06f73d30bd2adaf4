package delegation

import (
	"fmt"
	"maps"
	"time"
)

// Guard is what the reconciler remembers about the policies that make stamps true, and the database about itself.
type Guard struct {
	// Epoch is the guard epoch: an object that was created before it and is not confirmed by now never will be. It moves
	// forward only.
	Epoch time.Time
	// Policies are the policies and bindings last seen in order, by name.
	Policies map[string]Seen
	// Mark is the database's own.
	Mark Mark
}

// Seen is the version of a policy or binding that was compared with what it should be.
type Seen struct {
	UID        string `json:"uid"`
	Generation int64  `json:"generation"`
}

// Advance says what becomes of saving want where g stands: the later epoch, and want's policies unless they are nil. The
// mark is the database's and stays.
func (g Guard) Advance(want Guard) Guard {
	if e := Moment(want.Epoch); e.After(g.Epoch) {
		g.Epoch = e
	}
	if want.Policies != nil {
		g.Policies = maps.Clone(want.Policies)
	}
	return g
}

// Mark says which database this is and how many times something in it was ended. A copy of the newest mark is kept outside of
// the database, by whoever uses it, after every change that matters: a restored database has an older mark than the copy, and one
// that was made anew has another lineage. Either may have forgotten that something was revoked, so Check refuses both.
type Mark struct {
	Lineage string `json:"lineage"`
	Ended   int64  `json:"ended"`
}

// Check says whether the database may be used by someone who has seen this mark before. The zero mark was never seen.
func (m Mark) Check(seen Mark) error {
	switch {
	case seen == (Mark{}):
		return nil
	case m.Lineage != seen.Lineage:
		return fmt.Errorf("%w: it is another database", ErrRestored)
	case m.Ended < seen.Ended:
		return fmt.Errorf("%w: %d changes are missing", ErrRestored, seen.Ended-m.Ended)
	default:
		return nil
	}
}

// After is the mark of a database whose restoring was accepted: later than both, and of a lineage of its own.
func (m Mark) After(seen Mark, lineage string) Mark {
	return Mark{Lineage: lineage, Ended: max(m.Ended, seen.Ended) + 1}
}
