package delegation

import (
	"fmt"
	"slices"
	"time"
)

// SubmissionState is how far a submission has come. The zero value is no submission.
type SubmissionState string

// The states of a submission.
const (
	// Confirmed: a live object with this UID was submitted by Submitter; it may get rows.
	Confirmed SubmissionState = "CONFIRMED"
	// Closed: it gets no new rows. Those that it has end with their pods, unless it was revoked.
	Closed SubmissionState = "CLOSED"
)

// Submission is who submitted an object: the submitter's auth context (seed). It is the one place where a submitter
// stands.
type Submission struct {
	// UID is the object's; for Docker, the job's row name.
	UID string
	// GroupKind is "batch/Job" or "Pod"; Cluster, Namespace and Name say where it is, for people.
	GroupKind string
	Cluster   string
	Namespace string
	Name      string
	// Submitter is the subject of its tokens. It never changes, but is erased some time after the end.
	Submitter string
	// ViaUID is the parent whose submitter was copied, if there was one.
	ViaUID string
	// Audiences and Scopes are all that its tokens may name. Empty means none.
	Audiences []string
	Scopes    []string

	State       SubmissionState
	ConfirmedAt time.Time
	// Observed is how the object was last seen. It is zero where no policies guard, as for Docker.
	Observed Observation
	// ClosedAt is set once it is closed, RevokedAt when it was revoked, at once or after it was closed.
	ClosedAt  time.Time
	RevokedAt time.Time
	// Reason is why it was closed; the revocation's, once it is revoked.
	Reason Reason
}

// Open says whether the submission gets new rows.
func (s Submission) Open() bool { return s.State == Confirmed && s.RevokedAt.IsZero() }

// Live says whether the rows that the submission has may still speak for its submitter.
func (s Submission) Live() bool {
	return (s.State == Confirmed || s.State == Closed) && s.RevokedAt.IsZero() && s.Submitter != ""
}

// Confirm says what becomes of confirming want where s stands; the zero s is nothing yet. A second confirmation changes
// nothing, and neither does one that comes after the end. Another submitter, place or parent is ErrConflict.
func (s Submission) Confirm(want Submission) (Submission, error) {
	if want.State != Confirmed {
		return s, fmt.Errorf("confirm a submission: %w: it is not %s", ErrInvalid, Confirmed)
	}
	if err := want.Validate(); err != nil {
		return s, fmt.Errorf("confirm a submission: %w", err)
	}
	switch {
	case s.State == "":
		return want.normal(), nil
	case s.UID != want.UID || s.GroupKind != want.GroupKind || s.Cluster != want.Cluster || s.Namespace != want.Namespace ||
		s.Name != want.Name || s.ViaUID != want.ViaUID || (s.Submitter != want.Submitter && s.Submitter != ""):
		return s, fmt.Errorf("confirm a submission: %w", ErrConflict)
	default:
		return s, nil
	}
}

// Seen is how the object was last seen; if that was not noted, as a submission is when it is confirmed.
func (s Submission) Seen() Observation {
	if s.Observed.Since.IsZero() {
		return Observation{Since: s.ConfirmedAt}
	}
	return s.Observed
}

// Observe notes how an open submission's object was seen. What may have been changed past the policies stays as it was noted, and so does
// what was observed later.
func (s Submission) Observe(o Observation) Submission {
	o.Since = Moment(o.Since)
	if s.State == Confirmed && s.Seen().Explains(o) && !o.Since.Before(s.Observed.Since) {
		s.Observed = o
	}
	return s
}

// End closes an open submission: no new rows. The first reason stays.
func (s Submission) End(why Reason, at time.Time) Submission {
	if s.State == Confirmed {
		s.State, s.ClosedAt, s.Reason = Closed, Moment(at), why
	}
	return s
}

// Revoke closes a submission and takes its rows their word, also when it was closed before. The first revocation stays.
func (s Submission) Revoke(why Reason, at time.Time) Submission {
	if s.State == "" || !s.RevokedAt.IsZero() {
		return s
	}
	s = s.End(why, at)
	s.RevokedAt, s.Reason = Moment(at), why
	return s
}

// Erase forgets the submitter of a closed submission.
func (s Submission) Erase() Submission {
	if s.State == Closed {
		s.Submitter = ""
	}
	return s
}

// Validate finds what no submission may be. Whether the submitter may be one is not asked here.
func (s Submission) Validate() error {
	closed := s.State == Closed
	switch {
	case s.UID == "" || s.GroupKind == "":
		return fmt.Errorf("%w: a submission needs a UID and a kind", ErrInvalid)
	case !storable(s.UID, s.GroupKind, s.Cluster, s.Namespace, s.Name, s.Submitter, s.ViaUID) || !storable(s.Audiences...) || !storable(s.Scopes...):
		return fmt.Errorf("%w: a submission's texts are UTF-8", ErrInvalid)
	case s.State != Confirmed && s.State != Closed:
		return fmt.Errorf("%w: a submission is %s or %s", ErrInvalid, Confirmed, Closed)
	case s.Submitter == "" && !closed:
		return fmt.Errorf("%w: an open submission needs a submitter", ErrInvalid)
	case s.ConfirmedAt.IsZero() || closed == s.ClosedAt.IsZero() || (!closed && !s.RevokedAt.IsZero()):
		return fmt.Errorf("%w: a submission's times do not fit its state", ErrInvalid)
	case s.Observed.Generation < 0 || s.Observed.Since.IsZero() && s.Observed.Generation != 0:
		return fmt.Errorf("%w: a generation is counted from one, and was observed under policies", ErrInvalid)
	case closed != s.Reason.valid():
		return fmt.Errorf("%w: a closed submission has a reason, an open one none", ErrInvalid)
	default:
		return nil
	}
}

// normal is the submission as a store gives it back: its times in UTC and whole milliseconds, its lists its own.
func (s Submission) normal() Submission {
	s.ConfirmedAt, s.ClosedAt, s.RevokedAt, s.Observed.Since = Moment(s.ConfirmedAt), Moment(s.ClosedAt), Moment(s.RevokedAt), Moment(s.Observed.Since)
	s.Audiences, s.Scopes = slices.Clone(s.Audiences), slices.Clone(s.Scopes)
	return s
}

// Moment is a time as it is stored: UTC, in whole milliseconds, cut and never rounded up, since a row must not outlive what
// was said of it. The zero time stays zero.
func Moment(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return time.UnixMilli(t.UnixMilli()).UTC()
}
