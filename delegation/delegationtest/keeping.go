package delegationtest

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/lanyard-k8s/lanyard/delegation"
)

func pages(t *testing.T, s delegation.Store) {
	ctx := t.Context()
	for _, uid := range []string{"B", "a", "b-1", "b_1", "b1", "é"} {
		confirm(t, s, uid)
		put(t, s, PodRow(uid, "pod-of-"+uid))
	}
	put(t, s, DockerRow("a", "x"))
	var uids []string
	for q := (delegation.SubmissionQuery{Limit: 2}); ; {
		page, err := s.Submissions(ctx, q)
		expect(t, "list", err, nil)
		if len(page) == 0 {
			break
		}
		for _, one := range page {
			uids = append(uids, one.UID)
		}
		q.After = page[len(page)-1].UID
	}
	same(t, "by their bytes", []string{"B", "a", "b-1", "b1", "b_1", "é"}, uids)

	count := func(q delegation.RowQuery) int {
		rows, err := s.Rows(ctx, q)
		expect(t, "list rows", err, nil)
		for i := 1; i < len(rows); i++ {
			if rows[i-1].Name >= rows[i].Name {
				t.Fatalf("%s before %s", rows[i-1].Name, rows[i].Name)
			}
		}
		return len(rows)
	}
	same(t, "all", 7, count(delegation.RowQuery{}))
	same(t, "limited", 3, count(delegation.RowQuery{Limit: 3}))
	same(t, "by kind", 1, count(delegation.RowQuery{Kind: delegation.Docker}))
	same(t, "by state", 6, count(delegation.RowQuery{State: delegation.Active}))
	same(t, "by submission", 2, count(delegation.RowQuery{Submission: "a"}))
	same(t, "by both", 1, count(delegation.RowQuery{Submission: "a", State: delegation.Pending}))
	closed, err := s.Submissions(ctx, delegation.SubmissionQuery{State: delegation.Closed})
	expect(t, "list closed", err, nil)
	same(t, "none is closed", 0, len(closed))
}

// collectRows makes more tombstones than a batch holds, of every sort.
func collectRows(t *testing.T, s delegation.Store) {
	const many = 230
	ctx := t.Context()
	confirm(t, s, "open", "closed")
	for i := range many {
		put(t, s, PodRow("open", fmt.Sprintf("ended-%d", i)))
		revoke(t, s, delegation.Revocation{Row: PodRow("open", fmt.Sprintf("ended-%d", i)).Name, Reason: delegation.PodEnded, At: At(1)})
	}
	sorts := map[string]delegation.Reason{"open": delegation.RowRevoked, "closed": delegation.RowRevoked}
	for uid, why := range sorts {
		put(t, s, PodRow(uid, "revoked of "+uid))
		revoke(t, s, delegation.Revocation{Row: PodRow(uid, "revoked of "+uid).Name, Reason: why, At: At(1)})
	}
	refused := PodRow("", "refused")
	refused.State, refused.Reason, refused.RevokedAt = delegation.Revoked, delegation.PodRefused, At(1)
	put(t, s, refused)
	put(t, s, PodRow("open", "alive"))
	put(t, s, PodRow("open", "ended late"))
	revoke(t, s, delegation.Revocation{Row: PodRow("open", "ended late").Name, Reason: delegation.PodEnded, At: At(9)})
	_, err := s.End(ctx, "closed", delegation.WorkGone, At(2))
	expect(t, "end", err, nil)

	got, err := s.Collect(ctx, delegation.Collection{Limit: 100})
	expect(t, "collect nothing", err, nil)
	same(t, "nothing was asked for", delegation.Collected{}, got)
	total, batches, undone := 0, 0, []string(nil)
	for {
		got, err := s.Collect(ctx, delegation.Collection{Tombstones: At(5), Limit: 100})
		expect(t, "collect", err, nil)
		if got.None() {
			break
		}
		if got.Rows > 100 {
			t.Fatalf("a batch of %d", got.Rows)
		}
		total, batches, undone = total+got.Rows, batches+1, append(undone, got.Undone...)
	}
	same(t, "collected", many+2, total) // those that ended, closed's revoked one, the refused one
	same(t, "in batches", 3, batches)
	slices.Sort(undone)
	same(t, "whose pods may still run", []string{"refused", "revoked of closed"}, undone)
	for _, pod := range []string{"alive", "ended late", "revoked of open"} {
		get(t, s, PodRow("open", pod).Name)
	}
	for _, r := range []delegation.Row{refused, PodRow("closed", "revoked of closed")} {
		_, err := s.Get(ctx, r.Name)
		expect(t, "collected row", err, delegation.ErrNotFound)
	}
}

func eraseSubmitters(t *testing.T, s delegation.Store) {
	ctx := t.Context()
	confirm(t, s, "open", "gone", "with a row", "with a tombstone", "revoked", "late")
	put(t, s, PodRow("with a row", "p1"))
	put(t, s, PodRow("with a tombstone", "p2"))
	revoke(t, s, delegation.Revocation{Row: PodRow("", "p2").Name, Reason: delegation.PodEnded, At: At(1)})
	for _, uid := range []string{"gone", "with a row", "with a tombstone"} {
		_, err := s.End(ctx, uid, delegation.WorkGone, At(1))
		expect(t, "end", err, nil)
	}
	_, err := s.End(ctx, "late", delegation.WorkGone, At(9))
	expect(t, "end", err, nil)
	revoke(t, s, delegation.Revocation{Submission: "revoked", Reason: delegation.SubmissionRevoked, At: At(1)})

	got, err := s.Collect(ctx, delegation.Collection{Submitters: At(5)})
	expect(t, "collect", err, nil)
	same(t, "collected", delegation.Collected{Submitters: 3, Submissions: 1}, got)
	names := map[string]string{}
	list, err := s.Submissions(ctx, delegation.SubmissionQuery{})
	expect(t, "list", err, nil)
	for _, one := range list {
		names[one.UID] = one.Submitter
	}
	same(t, "left", map[string]string{"open": "alice", "with a row": "alice", "with a tombstone": "", "revoked": "", "late": "alice"}, names)
	again, err := s.Confirm(ctx, Submission("revoked"))
	expect(t, "confirm what was revoked and forgotten", err, nil)
	same(t, "it stays closed", delegation.Closed, again.State)
	same(t, "and forgotten", "", again.Submitter)

	revoke(t, s, delegation.Revocation{Row: PodRow("", "p1").Name, Reason: delegation.PodEnded, At: At(2)})
	for range 3 {
		_, err := s.Collect(ctx, delegation.Collection{Tombstones: At(5), Submitters: At(5)})
		expect(t, "collect", err, nil)
	}
	_, err = s.Submission(ctx, "with a row")
	expect(t, "a submission without rows", err, delegation.ErrNotFound)
}

func guardForward(t *testing.T, s delegation.Store) {
	ctx := t.Context()
	g, err := s.Guard(ctx)
	expect(t, "guard", err, nil)
	if g.Mark.Lineage == "" || !g.Epoch.IsZero() || len(g.Policies) > 0 || g.Mark.Ended != 0 {
		t.Fatalf("a new guard is %+v", g)
	}
	mark := g.Mark
	policies := map[string]delegation.Seen{"lanyard-creator-stamp": {UID: "u1", Generation: 3}}
	for name, step := range map[string]struct{ save, want delegation.Guard }{
		"forward": {delegation.Guard{Epoch: At(5), Policies: policies}, delegation.Guard{Epoch: At(5), Policies: policies, Mark: mark}},
	} {
		got, err := s.Advance(ctx, step.save)
		expect(t, name, err, nil)
		same(t, name, step.want, got)
	}
	got, err := s.Advance(ctx, delegation.Guard{Epoch: At(1), Mark: delegation.Mark{Lineage: "x", Ended: 99}})
	expect(t, "backward", err, nil)
	same(t, "backward", delegation.Guard{Epoch: At(5), Policies: policies, Mark: mark}, got)
	got, err = s.Guard(ctx)
	expect(t, "guard", err, nil)
	same(t, "saved", delegation.Guard{Epoch: At(5), Policies: policies, Mark: mark}, got)
}

func markCounts(t *testing.T, s delegation.Store) {
	ctx := t.Context()
	count := func() int64 {
		g, err := s.Guard(ctx)
		expect(t, "guard", err, nil)
		return g.Mark.Ended
	}
	confirm(t, s, "j1")
	put(t, s, PodRow("j1", "p1"))
	put(t, s, PodRow("j1", "p2"))
	same(t, "nothing has ended", int64(0), count())
	row := delegation.Revocation{Row: PodRow("j1", "p1").Name, Reason: delegation.RowRevoked, At: At(1)}
	revoke(t, s, row)
	revoke(t, s, row)
	same(t, "a row, once", int64(1), count())
	_, err := s.End(ctx, "j1", delegation.WorkGone, At(1))
	expect(t, "end", err, nil)
	same(t, "a submission", int64(2), count())
	revoke(t, s, delegation.Revocation{Submitter: "alice", Reason: delegation.SubmitterRevoked, At: At(1)})
	same(t, "a submitter", int64(3), count())
}

func acceptRestore(t *testing.T, s delegation.Store) {
	ctx := t.Context()
	confirm(t, s, "open", "closed")
	put(t, s, PodRow("open", "p1"))
	put(t, s, PodRow("closed", "p2"))
	_, err := s.End(ctx, "closed", delegation.WorkFinished, At(1))
	expect(t, "end", err, nil)
	before, err := s.Guard(ctx)
	expect(t, "guard", err, nil)
	seen := delegation.Mark{Lineage: before.Mark.Lineage, Ended: before.Mark.Ended + 7}
	expect(t, "an older copy", before.Mark.Check(seen), delegation.ErrRestored)

	got, err := s.AcceptRestore(ctx, seen, At(3))
	expect(t, "accept", err, nil)
	after, err := s.Guard(ctx)
	expect(t, "guard", err, nil)
	same(t, "returned", after, got)
	expect(t, "the mark that was seen is of another life", after.Mark.Check(seen), delegation.ErrRestored)
	expect(t, "and the old database is refused from now on", before.Mark.Check(after.Mark), delegation.ErrRestored)
	same(t, "later than both", seen.Ended+1, after.Mark.Ended)
	same(t, "the epoch", At(3), after.Epoch)
	for pod, uid := range map[string]string{"p1": "open", "p2": "closed"} {
		st := get(t, s, PodRow(uid, pod).Name)
		same(t, pod, delegation.Restored, st.Row.Reason)
		same(t, uid, delegation.Closed, st.Submission.State)
	}
	again, err := s.Confirm(ctx, Submission("open"))
	expect(t, "confirm again", err, nil)
	same(t, "it stays closed", delegation.Closed, again.State)
}

func changesTold(t *testing.T, s delegation.Store) {
	n, ok := s.(delegation.Notifier)
	if !ok {
		t.Skip("it tells of no changes, which a store need not")
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	changes := n.Changes(ctx)
	same(t, "the first change", delegation.Change{}, next(t, changes))
	confirm(t, s, "j1")
	settled := map[string]bool{}
	// A listener may still be on its way: put a new row until one is heard of.
	for i := 0; len(settled) == 0; i++ {
		r := put(t, s, PodRow("j1", fmt.Sprintf("p%d", i)))
		select {
		case c := <-changes:
			if c.Row != "" {
				settled[r.Name] = true
			}
		case <-time.After(50 * time.Millisecond):
		}
	}
	want := put(t, s, PodRow("j1", "wanted")).Name
	for next(t, changes).Row != want {
	}
	put(t, s, PodRow("j1", "wanted")) // changes nothing, and is not told
	revoke(t, s, delegation.Revocation{Row: want, Reason: delegation.RowRevoked, At: At(1)})
	same(t, "revoked", want, next(t, changes).Row)
	cancel()
	for range changes {
	}
}

func next(t *testing.T, changes <-chan delegation.Change) delegation.Change {
	t.Helper()
	select {
	case c, ok := <-changes:
		if !ok {
			t.Fatal("the channel was closed")
		}
		return c
	case <-time.After(20 * time.Second):
		t.Fatal("no change was told")
		return delegation.Change{}
	}
}

func callerGone(t *testing.T, s delegation.Store) {
	confirm(t, s, "j1")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.Get(ctx, PodRow("j1", "p1").Name)
	expect(t, "get", err, context.Canceled)
	expect(t, "get", err, delegation.ErrUnavailable)
	_, err = s.Put(ctx, PodRow("j1", "p1"))
	expect(t, "put", err, context.Canceled)
	_, err = s.Revoke(ctx, delegation.Revocation{Submission: "j1", Reason: delegation.SubmissionRevoked, At: At(1)})
	expect(t, "revoke", err, context.Canceled)
	got, err := s.Submission(t.Context(), "j1")
	expect(t, "get", err, nil)
	same(t, "nothing happened", Submission("j1"), got)
}
