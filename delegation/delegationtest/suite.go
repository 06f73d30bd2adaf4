package delegationtest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lanyard-k8s/lanyard/delegation"
)

// Run holds a store to the suite. open returns a new, empty store for each test; the store closes with the test.
func Run(t *testing.T, open func(t *testing.T) delegation.Store) {
	t.Helper()
	for name, test := range map[string]func(*testing.T, delegation.Store){
		"a submission is confirmed once":                  confirmedOnce,
		"what is not there is not found":                  notFound,
		"a generation is observed":                        observed,
		"a row lives and ends":                            livesAndEnds,
		"a row born revoked needs no submission":          bornRevoked,
		"a closed submission keeps its rows":              closedKeeps,
		"a revoked submission takes its rows along":       revokedTakes,
		"a submitter is revoked everywhere":               submitterRevoked,
		"revoking asks for one thing":                     revocationsValidated,
		"odd texts come back as they went":                oddTexts,
		"lists come in pages":                             pages,
		"tombstones are collected in batches":             collectRows,
		"submitters are erased, never under a living row": eraseSubmitters,
		"the guard moves forward":                         guardForward,
		"the mark counts endings":                         markCounts,
		"a restored database revives nothing":             acceptRestore,
		"changes are told":                                changesTold,
		"a caller that is gone gets no answer":            callerGone,
		"it does what the model does":                     likeTheModel,
		"many may write at once":                          concurrently,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t)
			t.Cleanup(func() {
				if err := s.Close(); err != nil {
					t.Errorf("close: %v", err)
				}
			})
			test(t, s)
		})
	}
}

// At is minute n of the suite's day.
func At(n int) time.Time {
	return time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC).Add(time.Duration(n) * time.Minute)
}

// Submission is an open submission of alice's.
func Submission(uid string) delegation.Submission {
	return delegation.Submission{
		UID: uid, GroupKind: "batch/Job", Cluster: "c", Namespace: "runs", Name: "train-" + uid, Submitter: "alice",
		Audiences: []string{"nemo-platform-api", "second"}, Scopes: []string{"openid"}, State: delegation.Confirmed, ConfirmedAt: At(0),
	}
}

// PodRow is the active row of a pod of the submission.
func PodRow(submission, podUID string) delegation.Row {
	const username = "system:serviceaccount:runs:runner"
	return delegation.Row{
		Name: delegation.PodName("nemo-platform-api", username, podUID), Kind: delegation.Pod, SubmissionUID: submission,
		Bound:     delegation.Reference{Name: delegation.ReferencePodUID, Value: podUID},
		Namespace: "runs", ServiceAccount: "runner", NodeName: "n1", State: delegation.Active, CreatedAt: At(0), ExpiresAt: At(60),
	}
}

// DockerRow is the pending row of a container of the submission.
func DockerRow(submission, id string) delegation.Row {
	return delegation.Row{
		Name: delegation.DockerName("w", "job", id, "1"), Kind: delegation.Docker, SubmissionUID: submission,
		ProofHash: delegation.Secret{1}.Hash(), State: delegation.Pending, CreatedAt: At(0), ExpiresAt: At(60),
	}
}

// expect fails the test unless the error is the wanted one; nil wants none.
func expect(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) || (want == nil) != (err == nil) {
		t.Fatalf("%s: error is %v, want %v", what, err, want)
	}
}

func same(t *testing.T, what string, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("%s (-want +got):\n%s", what, diff)
	}
}

func confirm(t *testing.T, s delegation.Store, uids ...string) {
	t.Helper()
	for _, uid := range uids {
		_, err := s.Confirm(t.Context(), Submission(uid))
		expect(t, "confirm "+uid, err, nil)
	}
}

func put(t *testing.T, s delegation.Store, r delegation.Row) delegation.Row {
	t.Helper()
	got, err := s.Put(t.Context(), r)
	expect(t, "put "+r.Name, err, nil)
	return got
}

func get(t *testing.T, s delegation.Store, name string) delegation.Standing {
	t.Helper()
	got, err := s.Get(t.Context(), name)
	expect(t, "get "+name, err, nil)
	return got
}

func revoke(t *testing.T, s delegation.Store, r delegation.Revocation) delegation.Ended {
	t.Helper()
	got, err := s.Revoke(t.Context(), r)
	expect(t, fmt.Sprintf("revoke %+v", r), err, nil)
	return got
}

// everything is all that a store holds.
type everything struct {
	Submissions []delegation.Submission
	Rows        []delegation.Row
	Guard       delegation.Guard
}

func dump(ctx context.Context, t *testing.T, s delegation.Store) everything {
	t.Helper()
	subs, err := s.Submissions(ctx, delegation.SubmissionQuery{})
	expect(t, "list submissions", err, nil)
	rows, err := s.Rows(ctx, delegation.RowQuery{})
	expect(t, "list rows", err, nil)
	guard, err := s.Guard(ctx)
	expect(t, "guard", err, nil)
	guard.Mark.Lineage = "" // each has its own
	return everything{subs, rows, guard}
}
