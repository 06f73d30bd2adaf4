package delegationtest

import (
	"testing"

	"github.com/lanyard-k8s/lanyard/delegation"
)

// Older holds what the first version has written to what this one makes of it. open opens the store, migrate brings it up to date, and run
// runs statements in the database past the store, which is closed unless said otherwise.
func Older(t *testing.T, open func() delegation.Store, migrate func(), run func(statements ...string)) {
	t.Helper()
	ctx, want := t.Context(), Submission("j1")
	s := open()
	confirm(t, s, "j1")
	row := put(t, s, PodRow("j1", "p1"))
	expect(t, "close", s.Close(), nil)
	run(`ALTER TABLE submission DROP COLUMN observed_since`, `ALTER TABLE submission DROP COLUMN observed_generation`,
		`DELETE FROM schema_version WHERE version_id > 1`)
	migrate()

	s = open()
	defer func() { expect(t, "close", s.Close(), nil) }()
	same(t, "what was stored before", delegation.Standing{Row: row, Submission: want}, get(t, s, row.Name))
	same(t, "it counts as seen when it was confirmed", delegation.Observation{Since: want.ConfirmedAt}, want.Seen())
	seen := delegation.Observation{Generation: 3, Since: At(-1)}
	got, err := s.Observe(ctx, "j1", seen)
	expect(t, "observe", err, nil)
	same(t, "observed", want.Observe(seen), got)
	same(t, "and kept", seen, get(t, s, row.Name).Submission.Observed)

	// A program of before goes on for a while, with this store open.
	run(`INSERT INTO submission (uid, group_kind, cluster, namespace, name, submitter, via_uid, audiences, scopes, state, confirmed_at, closed_at, revoked_at, reason)
 SELECT 'j2', group_kind, cluster, namespace, name, submitter, via_uid, audiences, scopes, state, confirmed_at, closed_at, revoked_at, reason FROM submission WHERE uid = 'j1'`)
	got, err = s.Submission(ctx, "j2")
	expect(t, "what it writes", err, nil)
	want.UID = "j2"
	same(t, "what it writes", want, got)
}
