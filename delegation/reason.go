package delegation

// Reason is why a submission was closed or a row revoked. Its text is stored, audited and a metric label.
type Reason string

// What happened to the workload. A pod or container that has ended never runs again, and a UID never comes back: what these
// reasons say stays true without the record that says it.
const (
	// PodEnded: the pod succeeded or failed.
	PodEnded Reason = "pod_ended"
	// PodGone: the pod was deleted, or the end of its grace period has passed.
	PodGone Reason = "pod_gone"
	// ContainerEnded: the container has exited or was removed.
	ContainerEnded Reason = "container_ended"
	// StartFailed: the container was never started.
	StartFailed Reason = "start_failed"
	// WorkFinished: the submitted object completed or failed.
	WorkFinished Reason = "work_finished"
	// WorkGone: the submitted object was deleted.
	WorkGone Reason = "work_gone"
)

// What was decided about it.
const (
	// MaxAge: the row reached rows.hardCap.
	MaxAge Reason = "max_age"
	// PodRefused: the reconciler judged the pod and refused it; the Event on the pod says why.
	PodRefused Reason = "pod_refused"
	// RowRevoked: an admin revoked the row.
	RowRevoked Reason = "row_revoked"
	// SubmissionRevoked: an admin revoked the submission.
	SubmissionRevoked Reason = "submission_revoked"
	// SubmitterRevoked: an admin revoked all that a submitter has.
	SubmitterRevoked Reason = "submitter_revoked"
	// Restored: the database was restored from an older copy, which may have forgotten revocations.
	Restored Reason = "restored"
)

// Reasons lists every reason once, for metrics, documents and tests.
func Reasons() []Reason {
	return []Reason{
		PodEnded, PodGone, ContainerEnded, StartFailed, WorkFinished, WorkGone,
		MaxAge, PodRefused, RowRevoked, SubmissionRevoked, SubmitterRevoked, Restored,
	}
}

// Lasting says whether the reason stays true and can be found again without the record: the thing itself has ended. A record
// with any other reason is the only memory of a decision, and is kept for as long as forgetting it could undo the decision.
func (r Reason) Lasting() bool {
	switch r {
	case PodEnded, PodGone, ContainerEnded, StartFailed, WorkFinished, WorkGone:
		return true
	default:
		return false
	}
}

// valid says whether the reason has the shape of one. Texts of other versions are accepted: they are read and shown.
func (r Reason) valid() bool {
	for i := range len(r) {
		if c := r[i]; (c < 'a' || c > 'z') && c != '_' {
			return false
		}
	}
	return r != "" && len(r) <= 64
}
