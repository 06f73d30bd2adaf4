package tokenreview

import (
	"errors"
	"time"
)

// Reason is why there is no verdict. Its text is the label in platform_connector_auth_violations_total.
type Reason string

// The reasons. The first five are the seed's; the others are ours, and StrictLiveness false folds them into the seed's.
const (
	// TokenInvalid: the token is not one of ours; a new one is needed.
	TokenInvalid Reason = "token_invalid"
	// ValidatorUnavailable: the API server cannot say now; the same token may be tried again.
	ValidatorUnavailable Reason = "validator_unavailable"
	// ValidatorTimeout: the caller's own deadline passed, or it hung up.
	ValidatorTimeout Reason = "validator_timeout"
	// ValidatorError: the API server refuses to review for us, or something is wrong with us; an operator is needed.
	ValidatorError Reason = "validator_error"
	// TokenExpired: the token was one, and its time is over.
	TokenExpired Reason = "token_expired"
	// PodNotLive: the token's pod was deleted, has ended or is past its deletion time.
	PodNotLive Reason = "pod_not_live"
	// RateLimited: too many failed tokens came over this connection.
	RateLimited Reason = "rate_limited"
)

// Reasons lists every reason once, for metrics, documents and tests.
func Reasons() []Reason {
	return []Reason{
		TokenInvalid, ValidatorUnavailable, ValidatorTimeout, ValidatorError, TokenExpired, PodNotLive, RateLimited,
	}
}

// The kinds of error, for errors.Is. Every error of this package is exactly one of them.
var (
	// ErrInvalid is about the token (Unauthenticated, 400): token_invalid, token_expired, pod_not_live.
	ErrInvalid = errors.New("the token is not valid")
	// ErrUnavailable is about the API server or a limit, and says nothing about the token: validator_unavailable, rate_limited.
	ErrUnavailable = errors.New("the token cannot be reviewed now")
	// ErrTimeout is the caller's own deadline or cancellation, which it wraps: validator_timeout.
	ErrTimeout = errors.New("the caller did not wait for the review")
	// ErrInternal is about us, with a hint for the operator: validator_error.
	ErrInternal = errors.New("tokens cannot be reviewed")
)

// Kind is the sentinel that errors with this reason are; nil for an unknown reason.
func (r Reason) Kind() error {
	switch r {
	case TokenInvalid, TokenExpired, PodNotLive:
		return ErrInvalid
	case ValidatorUnavailable, RateLimited:
		return ErrUnavailable
	case ValidatorTimeout:
		return ErrTimeout
	case ValidatorError:
		return ErrInternal
	default:
		return nil
	}
}

// Error is why there is no verdict. Its text is for the log, never for the caller, and holds no token.
type Error struct {
	Reason Reason
	// Detail is a clause for the log.
	Detail string
	// Hint tells an operator what to change; empty for most.
	Hint string
	// RetryAfter is what the API server asked for, or zero.
	RetryAfter time.Duration
	// Cause is the caller's context error under ErrTimeout, else nil: other causes are kept as text, since values that
	// travelled with a token may hold it.
	Cause error
}

// Error is one line.
func (e *Error) Error() string {
	text := "review token: " + string(e.Reason) + ": " + e.Detail
	if e.Hint != "" {
		text += " (" + e.Hint + ")"
	}
	return text
}

// Is makes the kind's sentinel match.
func (e *Error) Is(target error) bool { return target == e.Reason.Kind() }

// Unwrap is the cause.
func (e *Error) Unwrap() error { return e.Cause }

// ReasonOf is the reason of an error of this package. Any other error is ValidatorError: an error that nobody has thought
// of must not pass for an outage, which may fail open. It is empty for nil.
func ReasonOf(err error) Reason {
	if err == nil {
		return ""
	}
	var e *Error // declared late: it is on the heap, and a known token must cost none of that
	if errors.As(err, &e) {
		return e.Reason
	}
	return ValidatorError
}

func invalid(detail string) *Error { return &Error{Reason: TokenInvalid, Detail: detail} }

func unavailable(detail string) *Error { return &Error{Reason: ValidatorUnavailable, Detail: detail} }
