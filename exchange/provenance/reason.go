package provenance

// Outcome is what was decided. The zero value decides nothing and allows nothing.
type Outcome string

// The outcomes.
const (
	// Confirmed: the submitter is known.
	Confirmed Outcome = "confirmed"
	// Refused: it never will be; Reason says why.
	Refused Outcome = "refused"
	// NotYet: it cannot be decided now; Reason says what is waited for.
	NotYet Outcome = "not_yet"
	// Exempt: the object gets no identity and asks for none.
	Exempt Outcome = "exempt"
)

// Outcomes lists every outcome once, for metrics and tests.
func Outcomes() []Outcome { return []Outcome{Confirmed, Refused, NotYet, Exempt} }

// Reason is why an object was not confirmed. Its text is a metric label and the reason of an audit line.
type Reason string

// What is wrong with the object itself.
const (
	// BeforeGuards: it was created while the policies were not in force, or before its namespace was managed or its kind listed.
	BeforeGuards Reason = "before_guards"
	// Unstamped: it names no creator.
	Unstamped Reason = "unstamped"
	// CreatorRefused: its creator may not be anybody's submitter.
	CreatorRefused Reason = "creator_refused"
	// CreatorMalformed: its creator's name cannot stand in a token.
	CreatorMalformed Reason = "creator_malformed"
	// NotByPodCreator: the pod has a controller whose pods are made by somebody else than this pod's creator.
	NotByPodCreator Reason = "not_by_pod_creator"
	// OtherController: the pod's controller is of a kind whose pods get no identity.
	OtherController Reason = "other_controller"
	// Ambiguous: it has two controllers.
	Ambiguous Reason = "ambiguous_controller"
	// NoAccount: the pod runs as no service account.
	NoAccount Reason = "no_service_account"
	// NoVolume: the pod does not project the subject token as the webhook writes it.
	NoVolume Reason = "no_subject_token"
)

// What is wrong with what it belongs to.
const (
	// OwnerGone: its controller, or the parent that its submitter would come from, does not exist any more, or another object has its name.
	OwnerGone Reason = "owner_gone"
	// NoParent: a delegating controller made it for no parent of a kind that the controller is listed for.
	NoParent Reason = "no_parent"
	// TooDeep: its submitter would be more than three parents away.
	TooDeep Reason = "too_deep"
	// WorkFinished and WorkDeleted: the object that it belongs to has finished, or is being deleted, and gets no new rows.
	WorkFinished Reason = "work_finished"
	WorkDeleted  Reason = "work_deleted"
	// ChangedUnguarded: it was confirmed, and may have been changed while the policies were not in force; nobody knows by whom.
	ChangedUnguarded Reason = "changed_unguarded"
	// SubmissionClosed: the submission that it belongs to was closed or revoked.
	SubmissionClosed Reason = "submission_closed"
)

// What has ended, or is waited for. These are nobody's fault.
const (
	// PodEnded: the pod has succeeded or failed.
	PodEnded Reason = "pod_ended"
	// PodGone: the pod's grace period is over.
	PodGone Reason = "pod_gone"
	// GuardsDown: the policies are not as they must be, so nothing new is confirmed.
	GuardsDown Reason = "guards_down"
	// Suspended: the object that the pod belongs to is suspended.
	Suspended Reason = "suspended"
	// NotRead: a live object is needed; Verdict.Need names it.
	NotRead Reason = "not_read"
	// NotManaged: the namespace is not managed.
	NotManaged Reason = "not_managed"
	// OptedOut: the role label says none.
	OptedOut Reason = "opted_out"
)

// Reasons lists every reason once, for metrics, documents and tests.
func Reasons() []Reason {
	return []Reason{
		BeforeGuards, Unstamped, CreatorRefused, CreatorMalformed, NotByPodCreator, OtherController, Ambiguous, NoAccount, NoVolume,
		OwnerGone, NoParent, TooDeep, WorkFinished, WorkDeleted, ChangedUnguarded, SubmissionClosed,
		PodEnded, PodGone, GuardsDown, Suspended, NotRead, NotManaged, OptedOut,
	}
}

// Message tells the owner what is wrong and what to do, for the Event. Reasons that are nobody's fault have none.
func (r Reason) Message() string {
	const again = "; delete it and create it again"
	switch r {
	case BeforeGuards:
		return "it was created while Lanyard's policies were not in force, or before the namespace was managed or its kind listed, so nobody can vouch for its creator" + again
	case Unstamped:
		return "it does not say who created it (annotation lanyard.dev/created-by is missing)" + again
	case CreatorRefused:
		return "its creator may not submit work that acts for a person; have the platform team list the service account under " +
			"allowedSubmitterServiceAccounts, impersonate the user you submit for, or label the pod template lanyard.dev/role: none"
	case CreatorMalformed:
		return "its creator's name has letters that no token may carry, or is too long; ask the platform team for another user name"
	case NotByPodCreator:
		return "it names a controller but was not created by the one that creates that kind's pods; remove the ownerReferences and create it again"
	case OtherController:
		return "its controller is of a kind whose pods get no identity; submit the work as a Job"
	case Ambiguous:
		return "it has more than one controller; remove the ownerReferences and create it again"
	case NoAccount:
		return "it runs as no service account" + again
	case NoVolume:
		return "it has no subject token volume as the platform writes it; another admission webhook may have changed it; exempt the pod from that webhook" + again
	case OwnerGone:
		return "the object that it belongs to does not exist any more" + again
	case NoParent:
		return "a controller created it for no object that names a submitter; submit the work yourself"
	case TooDeep:
		return "more than three objects stand between it and its submitter; submit the work more directly"
	case WorkFinished:
		return "the work that it belongs to has finished; create the work again"
	case WorkDeleted:
		return "the work that it belongs to is being deleted; create the work again"
	case ChangedUnguarded:
		return "the work that it belongs to was changed while Lanyard's policies were not in force, or right after, so nobody can vouch for what it runs; delete the work and create it again"
	case SubmissionClosed:
		return "the work that it belongs to was closed or revoked; create the work again, or ask the platform team"
	default:
		return ""
	}
}

// OutcomesOf lists the outcomes that a reason can stand with, for metrics.
func OutcomesOf(r Reason) []Outcome {
	switch r {
	case GuardsDown, Suspended, NotRead:
		return []Outcome{NotYet}
	case NotManaged, OptedOut:
		return []Outcome{Exempt}
	default:
		return []Outcome{Refused}
	}
}
