package delegationtest

import (
	"testing"
	"time"

	"github.com/lanyard-k8s/lanyard/delegation"
)

func confirmedOnce(t *testing.T, s delegation.Store) {
	ctx, want := t.Context(), Submission("j1")
	for range 3 {
		got, err := s.Confirm(ctx, want)
		expect(t, "confirm", err, nil)
		same(t, "confirmed", want, got)
	}
	later := want
	later.ConfirmedAt, later.Audiences = At(9), []string{"more"}
	got, err := s.Confirm(ctx, later)
	expect(t, "confirm later", err, nil)
	same(t, "the first confirmation stays", want, got)

	bob := want
	bob.Submitter = "bob"
	_, err = s.Confirm(ctx, bob)
	expect(t, "confirm for another submitter", err, delegation.ErrConflict)
	closed := want.End(delegation.WorkGone, At(1))
	_, err = s.Confirm(ctx, closed)
	expect(t, "confirm what is closed", err, delegation.ErrInvalid)
	got, err = s.Submission(ctx, "j1")
	expect(t, "get", err, nil)
	same(t, "it stands", want, got)

	_, err = s.End(ctx, "j1", delegation.WorkFinished, At(2))
	expect(t, "end", err, nil)
	got, err = s.Confirm(ctx, want)
	expect(t, "confirm after the end", err, nil)
	same(t, "it stays closed", want.End(delegation.WorkFinished, At(2)), got)
}

func observed(t *testing.T, s delegation.Store) {
	ctx := t.Context()
	first, unseen := Submission("j1"), Submission("j2")
	first.Observed = delegation.Observation{Generation: 1, Since: At(0)}
	got, err := s.Confirm(ctx, first)
	expect(t, "confirm", err, nil)
	same(t, "confirmed", first, got)
	confirm(t, s, "j2")
	observe := func(what string, have delegation.Submission, generation int64, since time.Time) delegation.Submission {
		o := delegation.Observation{Generation: generation, Since: since}
		want := have.Observe(o)
		got, err := s.Observe(ctx, have.UID, o)
		expect(t, what, err, nil)
		same(t, what, want, got)
		got, err = s.Submission(ctx, have.UID)
		expect(t, what, err, nil)
		same(t, what+", read", want, got)
		return got
	}
	first = observe("changed under the policies' eyes", first, 2, At(0))
	same(t, "it is the second", int64(2), first.Observed.Generation)
	first = observe("unchanged past them", first, 2, At(5))
	same(t, "since then", At(5), first.Observed.Since)
	first = observe("changed past them", first, 3, At(9))
	same(t, "it stays the second", int64(2), first.Observed.Generation)
	unseen = observe("what was confirmed without", unseen, 4, At(-1))
	same(t, "it is the fourth", int64(4), unseen.Observed.Generation)

	r := PodRow("j1", "p1")
	put(t, s, r)
	same(t, "joined", first, get(t, s, r.Name).Submission)
	list, err := s.Submissions(ctx, delegation.SubmissionQuery{})
	expect(t, "list", err, nil)
	same(t, "listed", []delegation.Submission{first, unseen}, list)
	_, err = s.Observe(ctx, "j2", delegation.Observation{Generation: -1, Since: At(-1)})
	expect(t, "a generation below zero", err, delegation.ErrInvalid)
	_, err = s.Observe(ctx, "j3", delegation.Observation{Generation: 1, Since: At(0)})
	expect(t, "observe nothing", err, delegation.ErrNotFound)

	before, err := s.Guard(ctx)
	expect(t, "guard", err, nil)
	ended, err := s.End(ctx, "j1", delegation.WorkGone, At(20))
	expect(t, "end", err, nil)
	same(t, "an end keeps it", int64(2), ended.Observed.Generation)
	observe("closed", ended, 5, At(5))
	after, err := s.Guard(ctx)
	expect(t, "guard", err, nil)
	same(t, "observing ends nothing", before.Mark.Ended+1, after.Mark.Ended)
}

func notFound(t *testing.T, s delegation.Store) {
	ctx, name := t.Context(), PodRow("j1", "p1").Name
	_, err := s.Get(ctx, name)
	expect(t, "get", err, delegation.ErrNotFound)
	_, err = s.Get(ctx, "' OR 1=1 --")
	expect(t, "get what is no name", err, delegation.ErrNotFound)
	_, err = s.Submission(ctx, "j1")
	expect(t, "submission", err, delegation.ErrNotFound)
	_, err = s.End(ctx, "j1", delegation.WorkGone, At(1))
	expect(t, "end", err, delegation.ErrNotFound)
	_, err = s.Revoke(ctx, delegation.Revocation{Row: name, Reason: delegation.RowRevoked, At: At(1)})
	expect(t, "revoke a row", err, delegation.ErrNotFound)
	_, err = s.Revoke(ctx, delegation.Revocation{Submission: "j1", Reason: delegation.SubmissionRevoked, At: At(1)})
	expect(t, "revoke a submission", err, delegation.ErrNotFound)
	same(t, "revoke a stranger", delegation.Ended{}, revoke(t, s, delegation.Revocation{Submitter: "nobody", Reason: delegation.SubmitterRevoked, At: At(1)}))
	_, err = s.Put(ctx, PodRow("j1", "p1"))
	expect(t, "put on no submission", err, delegation.ErrEnded)
	same(t, "nothing is there", everything{}, dump(ctx, t, s))
}

func livesAndEnds(t *testing.T, s delegation.Store) {
	ctx, r := t.Context(), DockerRow("j1", "a")
	confirm(t, s, "j1")
	pending := put(t, s, r)
	same(t, "pending", int64(1), pending.Rev)
	same(t, "again", pending, put(t, s, r))

	r.State, r.Bound = delegation.Active, delegation.Reference{Name: delegation.ReferenceContainer, Value: "c1"}
	active := put(t, s, r)
	r.Rev = 2
	same(t, "active", r, active)
	same(t, "joined", delegation.Standing{Row: active, Submission: Submission("j1")}, get(t, s, r.Name))
	r.Bound.Value = "c2"
	_, err := s.Put(ctx, r)
	expect(t, "another container under the same name", err, delegation.ErrConflict)

	r.Bound.Value, r.ExpiresAt = "c1", At(90)
	renewed := put(t, s, r)
	same(t, "renewed", At(90), renewed.ExpiresAt)
	r.ExpiresAt = At(10)
	same(t, "never shortened", renewed, put(t, s, r))

	same(t, "revoked", delegation.Ended{Rows: 1}, revoke(t, s, delegation.Revocation{Row: r.Name, Reason: delegation.ContainerEnded, At: At(5)}))
	same(t, "once", delegation.Ended{}, revoke(t, s, delegation.Revocation{Row: r.Name, Reason: delegation.RowRevoked, At: At(6)}))
	want := renewed.Revoke(delegation.ContainerEnded, At(5))
	same(t, "final", want, put(t, s, r))
	same(t, "and stored", want, get(t, s, r.Name).Row)
	same(t, "the submission goes on", Submission("j1"), get(t, s, r.Name).Submission)
}

func bornRevoked(t *testing.T, s delegation.Store) {
	r := PodRow("", "p1")
	r.State, r.Reason, r.RevokedAt = delegation.Revoked, delegation.PodRefused, At(1)
	got := put(t, s, r)
	r.Rev = 1
	same(t, "born revoked", r, got)
	same(t, "on no submission", delegation.Standing{Row: r}, get(t, s, r.Name))
	confirm(t, s, "j1")
	same(t, "nobody talks it back to life", r, put(t, s, PodRow("j1", "p1")))
}

func closedKeeps(t *testing.T, s delegation.Store) {
	ctx := t.Context()
	confirm(t, s, "j1")
	put(t, s, PodRow("j1", "p1"))
	pending := put(t, s, DockerRow("j1", "a"))
	for range 2 {
		got, err := s.End(ctx, "j1", delegation.WorkFinished, At(3))
		expect(t, "end", err, nil)
		same(t, "ended", Submission("j1").End(delegation.WorkFinished, At(3)), got)
	}
	got, err := s.End(ctx, "j1", delegation.WorkGone, At(4))
	expect(t, "end again", err, nil)
	same(t, "the first reason stays", delegation.WorkFinished, got.Reason)

	same(t, "its row goes on", delegation.Active, get(t, s, PodRow("j1", "p1").Name).Row.State)
	longer := PodRow("j1", "p1")
	longer.ExpiresAt = At(120)
	same(t, "and is renewed", At(120), put(t, s, longer).ExpiresAt)
	_, err = s.Put(ctx, PodRow("j1", "p2"))
	expect(t, "a new row", err, delegation.ErrEnded)
	pending.State, pending.Bound = delegation.Active, delegation.Reference{Name: delegation.ReferenceContainer, Value: "c1"}
	_, err = s.Put(ctx, pending)
	expect(t, "a row that was pending", err, delegation.ErrEnded)
}

func revokedTakes(t *testing.T, s delegation.Store) {
	ctx := t.Context()
	confirm(t, s, "j1", "j2")
	put(t, s, PodRow("j1", "p1"))
	put(t, s, PodRow("j1", "p2"))
	put(t, s, PodRow("j2", "p3"))
	revoke(t, s, delegation.Revocation{Row: PodRow("j1", "p2").Name, Reason: delegation.PodGone, At: At(1)})
	_, err := s.End(ctx, "j1", delegation.WorkFinished, At(2))
	expect(t, "end", err, nil)
	r := delegation.Revocation{Submission: "j1", Reason: delegation.SubmissionRevoked, At: At(3)}
	same(t, "revoked after it was closed", delegation.Ended{Submissions: 1, Rows: 1}, revoke(t, s, r))
	same(t, "once", delegation.Ended{}, revoke(t, s, r))
	want := Submission("j1").End(delegation.WorkFinished, At(2)).Revoke(delegation.SubmissionRevoked, At(3))
	first := get(t, s, PodRow("j1", "p1").Name)
	same(t, "the submission", want, first.Submission)
	same(t, "its row", delegation.SubmissionRevoked, first.Row.Reason)
	same(t, "the row that had ended before", delegation.PodGone, get(t, s, PodRow("j1", "p2").Name).Row.Reason)
	same(t, "the other job's", delegation.Active, get(t, s, PodRow("j2", "p3").Name).Row.State)
	_, err = s.Put(ctx, PodRow("j1", "p4"))
	expect(t, "a new row", err, delegation.ErrEnded)
}

func submitterRevoked(t *testing.T, s delegation.Store) {
	ctx := t.Context()
	confirm(t, s, "j1", "j2", "j3")
	bob := Submission("j4")
	bob.Submitter = "bob"
	_, err := s.Confirm(ctx, bob)
	expect(t, "confirm bob's", err, nil)
	for uid, pod := range map[string]string{"j1": "p1", "j2": "p2", "j4": "p4"} {
		put(t, s, PodRow(uid, pod))
	}
	_, err = s.End(ctx, "j2", delegation.WorkFinished, At(1))
	expect(t, "end", err, nil)
	r := delegation.Revocation{Submitter: "alice", Reason: delegation.SubmitterRevoked, At: At(2)}
	same(t, "alice", delegation.Ended{Submissions: 3, Rows: 2}, revoke(t, s, r))
	same(t, "once", delegation.Ended{}, revoke(t, s, r))
	same(t, "bob", delegation.Active, get(t, s, PodRow("j4", "p4").Name).Row.State)
	for uid, pod := range map[string]string{"j1": "p1", "j2": "p2"} {
		got := get(t, s, PodRow(uid, pod).Name)
		same(t, uid+" is not live", false, got.Submission.Live())
		same(t, pod+" is revoked", delegation.SubmitterRevoked, got.Row.Reason)
	}
}

func revocationsValidated(t *testing.T, s delegation.Store) {
	for name, r := range map[string]delegation.Revocation{
		"nothing":        {Reason: delegation.RowRevoked, At: At(1)},
		"two things":     {Row: "r", Submission: "s", Reason: delegation.RowRevoked, At: At(1)},
		"without reason": {Row: "r", At: At(1)},
		"without time":   {Row: "r", Reason: delegation.RowRevoked},
		"a text":         {Row: "r", Reason: "because I say so", At: At(1)},
	} {
		_, err := s.Revoke(t.Context(), r)
		expect(t, name, err, delegation.ErrInvalid)
	}
	confirm(t, s, "j1")
	_, err := s.End(t.Context(), "j1", "", At(1))
	expect(t, "an end without a reason", err, delegation.ErrInvalid)
}

func oddTexts(t *testing.T, s delegation.Store) {
	const odd = "a'b\"c\\d%_; DROP TABLE delegation; --\t\n日本 ✓ \u2028"
	want := Submission("j1")
	want.Submitter, want.Name, want.Cluster, want.ViaUID = odd, odd, odd, odd
	want.Audiences, want.Scopes = []string{odd, ""}, nil
	got, err := s.Confirm(t.Context(), want)
	expect(t, "confirm", err, nil)
	same(t, "confirmed", want, got)
	r := PodRow("j1", "p1")
	r.Namespace, r.ServiceAccount, r.NodeName, r.Bound.Value = odd, odd, odd, odd
	put(t, s, r)
	r.Rev = 1
	same(t, "read", delegation.Standing{Row: r, Submission: want}, get(t, s, r.Name))
	list, err := s.Submissions(t.Context(), delegation.SubmissionQuery{Submitter: odd})
	expect(t, "list", err, nil)
	same(t, "listed", []delegation.Submission{want}, list)
	same(t, "revoked", delegation.Ended{Submissions: 1, Rows: 1}, revoke(t, s, delegation.Revocation{Submitter: odd, Reason: delegation.SubmitterRevoked, At: At(1)}))
}
