package delegation

import (
	"fmt"
	"time"
)

// Kind is what a row stands for, and so which proof it asks for.
type Kind string

// The kinds of row.
const (
	// Pod: a Kubernetes pod, proved by its service account token.
	Pod Kind = "k8s-pod"
	// Docker: a container, proved by the secret whose hash the row holds.
	Docker Kind = "docker"
)

// RowState is how far a row has come. The zero value is no row.
type RowState string

// The states of a row.
const (
	// Pending: promised, not yet running.
	Pending RowState = "PENDING"
	// Active: the workload may exchange its proof until ExpiresAt.
	Active RowState = "ACTIVE"
	// Revoked: it may not, for ever.
	Revoked RowState = "REVOKED"
)

// Reference is what a row is bound to besides its name: ReferencePodUID and the UID, or ReferenceContainer and the id.
type Reference struct {
	Name  string
	Value string
}

// Row is one workload's delegation.
type Row struct {
	// Name is made by PodName, DockerName or JobName.
	Name string
	Kind Kind
	// SubmissionUID is the submission that the row stands on. Only a row that was born revoked may have none.
	SubmissionUID string
	// Bound, Namespace, ServiceAccount and NodeName are compared with what the proof's review says. A pod has all of them
	// once it runs; a container has Bound alone.
	Bound          Reference
	Namespace      string
	ServiceAccount string
	NodeName       string
	// ProofHash is a Docker row's.
	ProofHash ProofHash

	State RowState
	// Rev counts the changes; it is the store's.
	Rev       int64
	CreatedAt time.Time
	ExpiresAt time.Time
	RevokedAt time.Time
	Reason    Reason
}

// Expired says whether the row's time is over. The zero row is expired.
func (r Row) Expired(now time.Time) bool { return !now.Before(r.ExpiresAt) }

// Put says what becomes of putting want where r stands; the zero r is nothing yet. s is the submission that want names, zero if
// there is none. Putting is idempotent: Rev grows only if something changed.
//
//	nothing    becomes want, if the submission is open; born revoked always
//	PENDING    becomes ACTIVE, if the submission is open
//	ACTIVE     gets the later ExpiresAt, if the submission is live; never becomes PENDING
//	any        becomes REVOKED
//	REVOKED    stays as it is, and is returned without an error: look at the State
func (r Row) Put(want Row, s Submission) (Row, error) {
	want = want.normal()
	if err := want.Validate(); err != nil {
		return r, fmt.Errorf("put a row: %w", err)
	}
	if r.State == Revoked {
		return r, nil
	}
	if want.SubmissionUID != s.UID {
		return r, fmt.Errorf("put a row: %w", ErrEnded)
	}
	if r.State == "" {
		return r.birth(want, s)
	}
	next, err := r.fill(want)
	switch {
	case err != nil:
		return r, err
	case want.State == Revoked:
		return next.Revoke(want.Reason, want.RevokedAt), nil
	case want.State == Active && r.State == Pending && !s.Open(), !s.Live():
		return r, fmt.Errorf("put a row: %w", ErrEnded)
	}
	if want.State == Active {
		next.State = Active
	}
	if want.ExpiresAt.After(r.ExpiresAt) {
		next.ExpiresAt = want.ExpiresAt
	}
	if next != r {
		next.Rev++
	}
	return next, nil
}

// birth is Put where nothing stands.
func (r Row) birth(want Row, s Submission) (Row, error) {
	if want.State != Revoked && !s.Open() {
		return r, fmt.Errorf("put a row: %w", ErrEnded)
	}
	want.Rev = 1
	return want, nil
}

// fill takes over what r does not know yet: the node and what the row is bound to. What it knows must be the same.
func (r Row) fill(want Row) (Row, error) {
	next := r
	for _, f := range []struct {
		known *string
		given string
	}{
		{&next.NodeName, want.NodeName}, {&next.Bound.Name, want.Bound.Name}, {&next.Bound.Value, want.Bound.Value},
	} {
		if *f.known == "" {
			*f.known = f.given
		}
		if f.given != "" && *f.known != f.given {
			return r, fmt.Errorf("put a row: %w", ErrConflict)
		}
	}
	hash := want.ProofHash == "" || want.ProofHash == r.ProofHash
	if r.Name != want.Name || r.Kind != want.Kind || r.SubmissionUID != want.SubmissionUID || r.Namespace != want.Namespace ||
		r.ServiceAccount != want.ServiceAccount || !hash {
		return r, fmt.Errorf("put a row: %w", ErrConflict)
	}
	return next, nil
}

// Revoke ends a row. The first revocation stays.
func (r Row) Revoke(why Reason, at time.Time) Row {
	if r.State == Pending || r.State == Active {
		r.State, r.Reason, r.RevokedAt = Revoked, why, Moment(at)
		r.Rev++
	}
	return r
}

// Validate finds what no row may be.
func (r Row) Validate() error {
	revoked := r.State == Revoked
	switch {
	case !ValidName(r.Name):
		return fmt.Errorf("%w: a row's name is made from what it stands for", ErrInvalid)
	case !storable(r.SubmissionUID, r.Bound.Name, r.Bound.Value, r.Namespace, r.ServiceAccount, r.NodeName):
		return fmt.Errorf("%w: a row's texts are UTF-8", ErrInvalid)
	case r.Kind != Pod && r.Kind != Docker:
		return fmt.Errorf("%w: a row is of kind %s or %s", ErrInvalid, Pod, Docker)
	case r.State != Pending && r.State != Active && !revoked:
		return fmt.Errorf("%w: a row is %s, %s or %s", ErrInvalid, Pending, Active, Revoked)
	case !revoked && r.SubmissionUID == "":
		return fmt.Errorf("%w: a row stands on a submission", ErrInvalid)
	case r.CreatedAt.IsZero() || !r.ExpiresAt.After(r.CreatedAt) || revoked == r.RevokedAt.IsZero():
		return fmt.Errorf("%w: a row's times do not fit its state", ErrInvalid)
	case revoked != r.Reason.valid():
		return fmt.Errorf("%w: a revoked row has a reason, another has none", ErrInvalid)
	case r.Kind == Pod && (r.Bound.Name != ReferencePodUID || r.Bound.Value == "" || r.Namespace == "" || r.ServiceAccount == ""):
		return fmt.Errorf("%w: a pod's row needs its UID, namespace and service account", ErrInvalid)
	case (r.Kind == Docker) != (r.ProofHash != "") || (r.ProofHash != "" && !r.ProofHash.Valid()):
		return fmt.Errorf("%w: a container's row holds its proof's hash, a pod's none", ErrInvalid)
	case r.Kind == Docker && r.State == Active && (r.Bound.Name != ReferenceContainer || r.Bound.Value == ""):
		return fmt.Errorf("%w: an active container's row needs its id", ErrInvalid)
	default:
		return nil
	}
}

// normal is the row as a store gives it back: its times in UTC and whole milliseconds.
func (r Row) normal() Row {
	r.CreatedAt, r.ExpiresAt, r.RevokedAt = Moment(r.CreatedAt), Moment(r.ExpiresAt), Moment(r.RevokedAt)
	return r
}
