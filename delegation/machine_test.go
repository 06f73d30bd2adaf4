package delegation_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lanyard-k8s/lanyard/delegation"
)

func at(minute int) time.Time {
	return time.Date(2026, 1, 2, 3, minute, 0, 0, time.UTC)
}

func submission() delegation.Submission {
	return delegation.Submission{
		UID: "job-uid", GroupKind: "batch/Job", Cluster: "c", Namespace: "ns", Name: "train", Submitter: "alice",
		Audiences: []string{"nemo-platform-api"}, Scopes: []string{"openid"}, State: delegation.Confirmed, ConfirmedAt: at(0),
	}
}

// submissions are all that a submission can be.
func submissions() map[string]delegation.Submission {
	s := submission()
	return map[string]delegation.Submission{
		"none":                {},
		"confirmed":           s,
		"closed":              s.End(delegation.WorkFinished, at(1)),
		"revoked":             s.Revoke(delegation.SubmissionRevoked, at(1)),
		"closed, revoked":     s.End(delegation.WorkFinished, at(1)).Revoke(delegation.SubmitterRevoked, at(2)),
		"closed and forgot":   s.End(delegation.WorkFinished, at(1)).Erase(),
		"unknown state":       func() delegation.Submission { s := s; s.State = "OPEN"; return s }(),
		"confirmed, nameless": func() delegation.Submission { s := s; s.Submitter = ""; return s }(),
	}
}

func container() delegation.Row {
	return delegation.Row{
		Name: delegation.DockerName("w", "job", "j", "1"), Kind: delegation.Docker, SubmissionUID: "job-uid", ProofHash: goldenHash,
		State: delegation.Pending, CreatedAt: at(0), ExpiresAt: at(30),
	}
}

// wanted are all that can be put: every state with every difference that matters.
func wanted() map[string]delegation.Row {
	all := map[string]delegation.Row{}
	for name, change := range map[string]func(*delegation.Row){
		"":                  func(*delegation.Row) {},
		" later":            func(r *delegation.Row) { r.ExpiresAt = at(40) },
		" earlier":          func(r *delegation.Row) { r.ExpiresAt = at(20) },
		" on a node":        func(r *delegation.Row) { r.NodeName = "n1" },
		" on another node":  func(r *delegation.Row) { r.NodeName = "n2" },
		" for another job":  func(r *delegation.Row) { r.SubmissionUID = "other" },
		" with other hash":  func(r *delegation.Row) { s := goldenSecret(); s[0] = 9; r.ProofHash = s.Hash() },
		" of another kind":  func(r *delegation.Row) { r.Kind = "vm" },
		" of no submission": func(r *delegation.Row) { r.SubmissionUID = "" },
	} {
		r := container()
		change(&r)
		all["pending"+name] = r
		r.State, r.Bound = delegation.Active, delegation.Reference{Name: delegation.ReferenceContainer, Value: "c1"}
		all["active"+name] = r
		r.Bound.Value = "c2"
		all["active otherwise"+name] = r
		r.Bound.Value = ""
		all["active without a container"+name] = r
		r.State, r.Bound, r.RevokedAt, r.Reason = delegation.Revoked, delegation.Reference{}, at(5), delegation.StartFailed
		all["revoked"+name] = r
		r.Reason = ""
		all["revoked without a reason"+name] = r
	}
	return all
}

// plainPut states Row.Put a second time, by what is put over what; it returns the state, the expiry and whether there is an error.
func plainPut(have, want delegation.Row, s delegation.Submission) (delegation.RowState, time.Time, bool) {
	keep := func(failed bool) (delegation.RowState, time.Time, bool) { return have.State, have.ExpiresAt, failed }
	if want.Validate() != nil {
		return keep(true)
	}
	if have.State == "REVOKED" {
		return keep(false)
	}
	if want.SubmissionUID != s.UID {
		return keep(true)
	}
	open := s.State == "CONFIRMED" && s.RevokedAt.IsZero()
	live := (open || s.State == "CLOSED") && s.RevokedAt.IsZero() && s.Submitter != ""
	later := have.ExpiresAt
	if want.ExpiresAt.After(later) {
		later = want.ExpiresAt
	}
	if have.State != "" {
		different := func(a, b string) bool { return a != "" && b != "" && a != b }
		if want.SubmissionUID != have.SubmissionUID || want.ProofHash != have.ProofHash || different(have.NodeName, want.NodeName) ||
			different(have.Bound.Value, want.Bound.Value) {
			return keep(true)
		}
	}
	switch string(have.State) + ">" + string(want.State) {
	case ">REVOKED":
		return "REVOKED", want.ExpiresAt, false
	case "PENDING>REVOKED", "ACTIVE>REVOKED":
		return "REVOKED", have.ExpiresAt, false
	case ">PENDING", ">ACTIVE", "PENDING>ACTIVE":
		if !open || (have.State != "" && !live) {
			return keep(true)
		}
		return want.State, later, false
	case "PENDING>PENDING", "ACTIVE>ACTIVE", "ACTIVE>PENDING":
		if !live {
			return keep(true)
		}
		return have.State, later, false
	}
	return "", time.Time{}, true
}

// TestPutExhaustively walks from nothing through every sequence of three puts, each on every submission, and compares each
// step with the plain statement.
func TestPutExhaustively(t *testing.T) {
	t.Parallel()
	steps, seen := 0, map[delegation.Row]bool{{}: true}
	frontier := []delegation.Row{{}}
	for range 3 {
		var next []delegation.Row
		for _, have := range frontier {
			for name, want := range wanted() {
				for about, s := range submissions() {
					steps++
					got := checkPut(t, name+" on "+about, have, want, s)
					if !seen[got] {
						seen[got] = true
						next = append(next, got)
					}
				}
			}
		}
		frontier = next
	}
	if steps < 10_000 || len(seen) < 20 {
		t.Errorf("only %d steps to %d rows", steps, len(seen))
	}
}

func checkPut(t *testing.T, name string, have, want delegation.Row, s delegation.Submission) delegation.Row {
	t.Helper()
	got, err := have.Put(want, s)
	state, expires, failed := plainPut(have, want, s)
	if got.State != state || !got.ExpiresAt.Equal(expires) || (err != nil) != failed {
		t.Fatalf("put %s over %+v: got %s until %v and %v, want %s until %v, error %v", name, have, got.State, got.ExpiresAt, err, state, expires, failed)
	}
	known := errors.Is(err, delegation.ErrInvalid) || errors.Is(err, delegation.ErrConflict) || errors.Is(err, delegation.ErrEnded)
	changed := got
	changed.Rev = have.Rev
	switch {
	case err != nil && (got != have || !known):
		t.Fatalf("put %s: error %v, and the row became (-have +got):\n%s", name, err, cmp.Diff(have, got))
	case (changed != have) != (got.Rev == have.Rev+1) || got.Rev < have.Rev:
		t.Fatalf("put %s: revision %d after %d", name, got.Rev, have.Rev)
	case got.State != "" && got.Validate() != nil:
		t.Fatalf("put %s made a row that is none: %v", name, got.Validate())
	}
	again, err := got.Put(want, s)
	if again != got && err == nil && have.State != "" {
		t.Fatalf("put %s twice (-once +twice):\n%s", name, cmp.Diff(got, again))
	}
	return got
}

func TestRevocationIsFinal(t *testing.T) {
	t.Parallel()
	for name, want := range wanted() {
		r := container().Revoke(delegation.RowRevoked, at(3))
		if r.State != delegation.Revoked || r.Reason != delegation.RowRevoked || !r.RevokedAt.Equal(at(3)) || r.Rev != 1 {
			t.Fatalf("revoked row is %+v", r)
		}
		for about, s := range submissions() {
			if got, _ := r.Put(want, s); got != r {
				t.Errorf("put %s on %s revived the row (-want +got):\n%s", name, about, cmp.Diff(r, got))
			}
		}
		if again := r.Revoke(delegation.MaxAge, at(9)); again != r {
			t.Errorf("a second revocation changed the first: %+v", again)
		}
	}
	if got := (delegation.Row{}).Revoke(delegation.RowRevoked, at(3)); got != (delegation.Row{}) {
		t.Errorf("nothing was revoked: %+v", got)
	}
}

func TestExpiryIsComputed(t *testing.T) {
	t.Parallel()
	r := container()
	for name, tc := range map[string]struct {
		row  delegation.Row
		now  time.Time
		want bool
	}{
		"just before":  {r, at(30).Add(-1), false},
		"at the time":  {r, at(30), true},
		"after":        {r, at(31), true},
		"the zero row": {delegation.Row{}, time.Time{}, true},
	} {
		if got := tc.row.Expired(tc.now); got != tc.want {
			t.Errorf("%s: expired is %v", name, got)
		}
	}
}

func TestValidateRefusesWhatNoRowMayBe(t *testing.T) {
	t.Parallel()
	pod := delegation.Row{
		Name: delegation.PodName("a", "u", "p"), Kind: delegation.Pod, SubmissionUID: "job-uid", State: delegation.Active, Namespace: "ns",
		ServiceAccount: "sa", Bound: delegation.Reference{Name: delegation.ReferencePodUID, Value: "p"}, CreatedAt: at(0), ExpiresAt: at(1),
	}
	if err := pod.Validate(); err != nil {
		t.Fatalf("a pod's row: %v", err)
	}
	for name, change := range map[string]func(*delegation.Row){
		"no name":                   func(r *delegation.Row) { r.Name = "" },
		"no kind":                   func(r *delegation.Row) { r.Kind = "" },
		"a zero byte":               func(r *delegation.Row) { r.NodeName = "n\x00" },
		"no UTF-8":                  func(r *delegation.Row) { r.Namespace = "\xff" },
		"no state":                  func(r *delegation.Row) { r.State = "" },
		"expired as a state":        func(r *delegation.Row) { r.State = "EXPIRED" },
		"active on no submission":   func(r *delegation.Row) { r.SubmissionUID = "" },
		"no time of birth":          func(r *delegation.Row) { r.CreatedAt = time.Time{} },
		"no life":                   func(r *delegation.Row) { r.ExpiresAt = r.CreatedAt },
		"revoked without a time":    func(r *delegation.Row) { r.State, r.Reason = delegation.Revoked, delegation.PodGone },
		"active with a revocation":  func(r *delegation.Row) { r.RevokedAt = at(1) },
		"active with a reason":      func(r *delegation.Row) { r.Reason = delegation.PodGone },
		"a reason that is a text":   func(r *delegation.Row) { r.State, r.RevokedAt, r.Reason = delegation.Revoked, at(1), "it was bad" },
		"a pod without its UID":     func(r *delegation.Row) { r.Bound.Value = "" },
		"a pod bound to something":  func(r *delegation.Row) { r.Bound.Name = "pod-name" },
		"a pod without a namespace": func(r *delegation.Row) { r.Namespace = "" },
		"a pod without an account":  func(r *delegation.Row) { r.ServiceAccount = "" },
		"a pod with a hash":         func(r *delegation.Row) { r.ProofHash = goldenHash },
		"a container without one":   func(r *delegation.Row) { r.Kind = delegation.Docker },
		"a container with half one": func(r *delegation.Row) {
			r.Kind, r.ProofHash = delegation.Docker, delegation.ProofHash(goldenHash[:20])
		},
	} {
		r := pod
		change(&r)
		if err := r.Validate(); !errors.Is(err, delegation.ErrInvalid) {
			t.Errorf("%s: error is %v, want ErrInvalid", name, err)
		}
	}
}
