package grant

// Code is the OAuth error code of a refusal (RFC 6749 section 5.2, RFC 8693 section 2.2.2).
type Code string

// The codes. The last two are borrowed from the authorization endpoint; the status carries their meaning.
const (
	InvalidRequest         Code = "invalid_request"
	InvalidClient          Code = "invalid_client"
	InvalidTarget          Code = "invalid_target"
	UnsupportedGrantType   Code = "unsupported_grant_type"
	TemporarilyUnavailable Code = "temporarily_unavailable"
	ServerError            Code = "server_error"
)

// Reason is why an exchange was refused. Its text is for metrics and the audit log; a caller is never told it. The empty Reason is
// "not decided" and is answered as a fault of ours.
type Reason string

// The form, in the order in which it is checked.
const (
	// Disabled: workload token exchange is off.
	Disabled Reason = "disabled"
	// ContentType: the body is not application/x-www-form-urlencoded.
	ContentType Reason = "content_type"
	// QueryPresent: parameters stand in the URL, where logs keep them.
	QueryPresent Reason = "query_present"
	// BodyTooLong: the body is longer than MaxBody.
	BodyTooLong Reason = "body_too_long"
	// BodyMalformed: the body cannot be decoded, or holds controls or what is no UTF-8.
	BodyMalformed Reason = "body_malformed"
	// ParameterRepeated: a parameter stands twice.
	ParameterRepeated Reason = "parameter_repeated"
	// GrantTypeMissing: there is no grant_type.
	GrantTypeMissing Reason = "grant_type_missing"
	// GrantTypeUnsupported: another grant.
	GrantTypeUnsupported Reason = "grant_type_unsupported"
	// ClientUnknown: client_id is not ours, or a client secret came with it.
	ClientUnknown Reason = "client_unknown"
	// SubjectTypeUnsupported: subject_token_type is missing or none of ours.
	SubjectTypeUnsupported Reason = "subject_type_unsupported"
	// RequestedTypeUnsupported: something else than an access token was asked for.
	RequestedTypeUnsupported Reason = "requested_type_unsupported"
	// ActorPresent: an actor token. The actor is whoever holds the subject token, so it would change what is asked.
	ActorPresent Reason = "actor_present"
	// ResourcePresent: a resource; targets are named by audience here.
	ResourcePresent Reason = "resource_present"
	// SubjectMissing: there is no subject_token.
	SubjectMissing Reason = "subject_missing"
	// SubjectTooLong: the subject token is longer than MaxSubject.
	SubjectTooLong Reason = "subject_too_long"
	// AudienceDenied: the audience is none that tokens are issued for.
	AudienceDenied Reason = "audience_denied"
)

// The proof. The first five are found by whoever verifies it.
const (
	// ProofMalformed: the subject token is not what its type says.
	ProofMalformed Reason = "proof_malformed"
	// ReviewRejected: the API server says that the token is not valid.
	ReviewRejected Reason = "review_rejected"
	// ReviewUnavailable: the API server cannot say now.
	ReviewUnavailable Reason = "review_unavailable"
	// ReviewerRefused: the API server refuses to review for us, or says yes and names nobody; an operator is needed.
	ReviewerRefused Reason = "reviewer_refused"
	// RateLimited: too much at once, from one caller or in all.
	RateLimited Reason = "rate_limited"
	// Unbound: the token is bound to no pod.
	Unbound Reason = "unbound_token"
	// SubjectExpired: the subject token's time is over.
	SubjectExpired Reason = "subject_expired"
	// SubjectExpiring: it has so little left that the kubelet is about to replace it.
	SubjectExpiring Reason = "subject_expiring"
	// HashMismatch: the Docker proof's secret is not the row's, or there is no such row.
	HashMismatch Reason = "hash_mismatch"
)

// The row.
const (
	// StoreUnavailable: our database does not answer.
	StoreUnavailable Reason = "store_unavailable"
	// RowAbsent: the pod has not been judged yet.
	RowAbsent Reason = "row_absent"
	// RowMismatch: the row stands for another workload than the proof.
	RowMismatch Reason = "row_mismatch"
	// NodeMismatch: the pod's token names another node than the row.
	NodeMismatch Reason = "node_mismatch"
	// RowRevoked: the row was revoked.
	RowRevoked Reason = "row_revoked"
	// RowPending: the workload is not running yet.
	RowPending Reason = "row_pending"
	// RowExpired: the row's time is over.
	RowExpired Reason = "row_expired"
	// RowExpiring: the row has too little left for a token.
	RowExpiring Reason = "row_expiring"
	// SubmissionRevoked: the submission was revoked, or is none.
	SubmissionRevoked Reason = "submission_revoked"
	// AudienceNotGranted: the submission's tokens are not for this audience.
	AudienceNotGranted Reason = "audience_not_granted"
	// SubmitterReserved: the submitter's name is the platform's own.
	SubmitterReserved Reason = "submitter_reserved"
	// IdentityInvalid: a name has a length or letters that no token carries.
	IdentityInvalid Reason = "identity_invalid"
	// KeyUnavailable: there is no key to sign with.
	KeyUnavailable Reason = "key_unavailable"
)

// Reasons lists every reason once, for metrics, documents and tests.
func Reasons() []Reason {
	return []Reason{
		Disabled, ContentType, QueryPresent, BodyTooLong, BodyMalformed, ParameterRepeated, GrantTypeMissing, GrantTypeUnsupported,
		ClientUnknown, SubjectTypeUnsupported, RequestedTypeUnsupported, ActorPresent, ResourcePresent, SubjectMissing, SubjectTooLong,
		AudienceDenied,
		ProofMalformed, ReviewRejected, ReviewUnavailable, ReviewerRefused, RateLimited, Unbound, SubjectExpired, SubjectExpiring,
		HashMismatch,
		StoreUnavailable, RowAbsent, RowMismatch, NodeMismatch, RowRevoked, RowPending, RowExpired, RowExpiring, SubmissionRevoked,
		AudienceNotGranted, SubmitterReserved, IdentityInvalid, KeyUnavailable,
	}
}
