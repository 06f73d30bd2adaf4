package delegationtest

import (
	"testing"

	"github.com/lanyard-k8s/lanyard/delegation"
)

// Restored is a store that is in use, and what puts its database back to where it was.
type Restored struct {
	Store interface {
		delegation.Store
		Told(delegation.Mark) error
	}
	// Copy takes a copy of the database, Restore puts the copy in its place.
	Copy, Restore func(t *testing.T)
}

// RunRestores holds a store to what it says of a database that is restored while it is in use: nothing, from then on.
func RunRestores(t *testing.T, open func(t *testing.T) Restored) {
	t.Helper()
	for name, test := range map[string]func(*testing.T, Restored){
		"a revoked row is not read":                     restoredRow,
		"the guard is not read":                         restoredGuard,
		"nothing more is ended, which would hide it":    restoredEnding,
		"a mark that somebody else has seen is counted": restoredTold,
		"another database is not read":                  restoredOther,
		"who accepts it goes on":                        restoredAccepted,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := open(t)
			t.Cleanup(func() {
				if err := r.Store.Close(); err != nil {
					t.Errorf("close: %v", err)
				}
			})
			confirm(t, r.Store, "j1", "j2")
			put(t, r.Store, PodRow("j1", "p1"))
			put(t, r.Store, PodRow("j2", "p2"))
			r.Copy(t)
			test(t, r)
		})
	}
}

// forgotten revokes j1 and puts the database back to before that.
func (r Restored) forgotten(t *testing.T) {
	t.Helper()
	revoke(t, r.Store, delegation.Revocation{Submission: "j1", Reason: delegation.SubmissionRevoked, At: At(1)})
	r.Restore(t)
}

// silent expects that nothing is said any more, whatever is asked.
func (r Restored) silent(t *testing.T) {
	t.Helper()
	for _, row := range []string{PodRow("j1", "p1").Name, PodRow("j2", "p2").Name} {
		_, err := r.Store.Get(t.Context(), row)
		expect(t, "get", err, delegation.ErrRestored)
	}
	_, err := r.Store.Guard(t.Context())
	expect(t, "guard", err, delegation.ErrRestored)
	_, err = r.Store.Put(t.Context(), PodRow("j2", "p3"))
	expect(t, "put", err, delegation.ErrRestored)
	_, err = r.Store.End(t.Context(), "j2", delegation.WorkGone, At(2))
	expect(t, "end", err, delegation.ErrRestored)
	_, err = r.Store.Revoke(t.Context(), delegation.Revocation{Submitter: "alice", Reason: delegation.SubmitterRevoked, At: At(2)})
	expect(t, "revoke", err, delegation.ErrRestored)
}

func restoredRow(t *testing.T, r Restored) {
	r.forgotten(t)
	_, err := r.Store.Get(t.Context(), PodRow("j1", "p1").Name)
	expect(t, "get the row that was revoked", err, delegation.ErrRestored)
	r.silent(t)
}

func restoredGuard(t *testing.T, r Restored) {
	r.forgotten(t)
	_, err := r.Store.Guard(t.Context())
	expect(t, "guard", err, delegation.ErrRestored)
	r.silent(t)
}

func restoredEnding(t *testing.T, r Restored) {
	r.forgotten(t)
	_, err := r.Store.End(t.Context(), "j2", delegation.WorkGone, At(2))
	expect(t, "end", err, delegation.ErrRestored)
	subs, err := r.Store.Submissions(t.Context(), delegation.SubmissionQuery{State: delegation.Closed})
	expect(t, "list", err, nil)
	same(t, "nothing was written", 0, len(subs))
	r.silent(t)
}

// restoredTold has a database that this store has not seen newer: another replica has.
func restoredTold(t *testing.T, r Restored) {
	g, err := r.Store.Guard(t.Context())
	expect(t, "guard", err, nil)
	expect(t, "the same", r.Store.Told(g.Mark), nil)
	expect(t, "none", r.Store.Told(delegation.Mark{}), nil)
	expect(t, "newer", r.Store.Told(delegation.Mark{Lineage: g.Mark.Lineage, Ended: g.Mark.Ended + 2}), nil)
	expect(t, "older again", r.Store.Told(g.Mark), nil)
	r.silent(t)
}

func restoredOther(t *testing.T, r Restored) {
	_, err := r.Store.Guard(t.Context())
	expect(t, "guard", err, nil)
	expect(t, "another", r.Store.Told(delegation.Mark{Lineage: "another", Ended: 3}), delegation.ErrRestored)
	r.silent(t)
}

func restoredAccepted(t *testing.T, r Restored) {
	r.forgotten(t)
	g, err := r.Store.AcceptRestore(t.Context(), delegation.Mark{Lineage: "x", Ended: 7}, At(3))
	expect(t, "accept", err, nil)
	same(t, "the mark", int64(8), g.Mark.Ended)
	same(t, "revoked", delegation.Restored, get(t, r.Store, PodRow("j1", "p1").Name).Row.Reason)
	_, err = r.Store.Guard(t.Context())
	expect(t, "guard", err, nil)
}
