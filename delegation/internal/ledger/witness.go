package ledger

import (
	"sync"

	"github.com/lanyard-k8s/lanyard/delegation"
)

// witness knows the newest mark that this process has met, in the database or anywhere else. A database that is behind it was restored
// under the process, and nothing that it says counts any more. What was found once stays found, however far the database's own
// count has come since.
type witness struct {
	mu    sync.Mutex
	mark  delegation.Mark
	found error
}

// newest is the mark that the answer to a question from now on must not be behind, or what was found before.
func (w *witness) newest() (delegation.Mark, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mark, w.found
}

// met compares the mark of an answer with the newest when the question was asked: others may have moved it on meanwhile.
func (w *witness) met(before, got delegation.Mark) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.found == nil {
		w.found = got.Check(before)
	}
	if w.found == nil && got != (delegation.Mark{}) && (w.mark == delegation.Mark{} || w.mark.Lineage == got.Lineage && w.mark.Ended < got.Ended) {
		w.mark = got
	}
	return w.found
}

// told takes over a mark that was seen elsewhere. One of another database means that this one, or the other, was put in its place.
func (w *witness) told(mark delegation.Mark) error {
	before, found := w.newest()
	switch {
	case found != nil || mark == delegation.Mark{}:
		return found
	case mark.Lineage == before.Lineage && mark.Ended < before.Ended:
		return nil // an older one of the same: ours is newer
	default:
		return w.met(before, mark)
	}
}

// forget begins anew, for whoever accepts a database as it is.
func (w *witness) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mark, w.found = delegation.Mark{}, nil
}

// Told tells the store of a mark that was seen elsewhere. From then on a database that is behind it, or another, is not read: Get, Guard
// and every change answer ErrRestored, as they do where the database falls behind what they have seen of it themselves.
func (s *Store) Told(mark delegation.Mark) error { return s.witness.told(mark) }
