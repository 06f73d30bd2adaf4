package grant

// Refusal is why there is no token. The zero Refusal is a fault of ours.
type Refusal struct {
	// Code is what the caller is told.
	Code Code
	// Reason is what we are told.
	Reason Reason
}

// Refuse is the refusal for a reason.
func Refuse(why Reason) Refusal { return Refusal{Code: why.code(), Reason: why} }

// code is the OAuth error of a reason (spec, section 4). A proof or a row that is refused is invalid_request, never
// invalid_grant, and never 401 (RFC 8693 section 2.2.2).
func (r Reason) code() Code {
	switch r {
	case GrantTypeUnsupported:
		return UnsupportedGrantType
	case ClientUnknown:
		return InvalidClient
	case ResourcePresent, AudienceDenied, AudienceNotGranted:
		return InvalidTarget
	case ReviewUnavailable, ReviewerRefused, RateLimited, SubjectExpiring, StoreUnavailable, RowAbsent, RowPending, KeyUnavailable:
		return TemporarilyUnavailable
	case Disabled, ContentType, QueryPresent, BodyTooLong, BodyMalformed, ParameterRepeated, GrantTypeMissing, SubjectTypeUnsupported,
		RequestedTypeUnsupported, ActorPresent, SubjectMissing, SubjectTooLong, ProofMalformed, ReviewRejected, Unbound, SubjectExpired,
		HashMismatch, RowMismatch, NodeMismatch, RowRevoked, RowExpired, RowExpiring, SubmissionRevoked, SubmitterReserved, IdentityInvalid:
		return InvalidRequest
	default:
		return ServerError
	}
}

// Status is the HTTP status.
func (r Refusal) Status() int {
	switch r.Code {
	case InvalidClient:
		return 401
	case TemporarilyUnavailable:
		if r.Reason == RateLimited {
			return 429
		}
		return 503
	case InvalidRequest, InvalidTarget, UnsupportedGrantType:
		return 400
	default:
		return 500
	}
}

// RetryAfter is how many seconds the caller is told to wait; 0 for an answer that will not change by waiting.
func (r Refusal) RetryAfter() int {
	switch {
	case r.Code != TemporarilyUnavailable:
		return 0
	case r.Reason == SubjectExpiring || r.Reason == ReviewerRefused || r.Reason == RateLimited:
		return 5
	default:
		return 1
	}
}

// Description is the error_description, one of a few fixed sentences. It helps whoever wrote the request, and tells whoever tries
// proofs nothing about which check failed. It holds only the characters that RFC 6749 allows.
func (r Refusal) Description() string {
	switch r.Reason {
	case Disabled:
		return "workload token exchange is not enabled"
	case ContentType:
		return "the body must be of type application/x-www-form-urlencoded"
	case QueryPresent:
		return "parameters belong in the body; the URL must have no query"
	case BodyTooLong, BodyMalformed:
		return "the body cannot be read"
	case ParameterRepeated:
		return "no parameter may be repeated"
	case GrantTypeMissing, GrantTypeUnsupported:
		return "grant_type must be " + GrantType
	case ClientUnknown:
		return "the client is not known"
	case SubjectTypeUnsupported:
		return "subject_token_type is not supported"
	case RequestedTypeUnsupported:
		return "requested_token_type is not supported"
	case ActorPresent:
		return "actor_token is not supported; the workload is the actor"
	case ResourcePresent:
		return "resource is not supported; name an audience"
	case SubjectMissing:
		return "subject_token is missing"
	case AudienceDenied, AudienceNotGranted:
		return "the audience is not allowed"
	}
	switch r.Code {
	case TemporarilyUnavailable:
		return "try again later"
	case InvalidRequest:
		return "the subject token was refused"
	default:
		return "the exchange failed"
	}
}
