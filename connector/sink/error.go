package sink

import (
	"errors"
	"fmt"

	"github.com/lanyard-k8s/lanyard/connector/nodebinding"
)

// Reason is why a delivery went wrong; its text is the label "reason" of the metrics.
type Reason string

// The reasons. The first ones pass by themselves or when somebody mends something; the last three are about the batch.
const (
	// Unreachable: nobody answers.
	Unreachable Reason = "unreachable"
	// Timeout: the answer did not come in time.
	Timeout Reason = "timeout"
	// Busy: the other side asks to be left alone for a while.
	Busy Reason = "busy"
	// Throttled: the node has been written to as often as it may be in a minute.
	Throttled Reason = "throttled"
	// Conflict: others changed the same thing again and again.
	Conflict Reason = "conflict"
	// Unauthorized: the other side does not know us or gives us no right.
	Unauthorized Reason = "unauthorized"
	// Credential: our own token, certificate or password cannot be read.
	Credential Reason = "credential"
	// Disk: the disk is full or broken.
	Disk Reason = "disk"
	// Internal: the other side, or we, made a mistake.
	Internal Reason = "internal"
	// CrossNode: the batch is of a caller that may name any node, and the sink speaks for one node alone.
	CrossNode Reason = "cross_node"
	// TooLarge: an event is larger than the other side takes.
	TooLarge Reason = "too_large"
	// Refused: the other side does not take the batch.
	Refused Reason = "refused"
)

// Reasons lists every reason once, for metrics and documents.
func Reasons() []Reason {
	return []Reason{
		Unreachable, Timeout, Busy, Throttled, Conflict, Unauthorized, Credential, Disk, Internal, CrossNode, TooLarge, Refused,
	}
}

// Error is a delivery that went wrong. Its text holds no token and nothing of an event.
type Error struct {
	// Final means that the same batch will not fare better another time.
	Final bool
	// Reason is why.
	Reason Reason
	// Code is what a caller who waits for the delivery is answered with.
	Code nodebinding.Code
	// Err is the cause.
	Err error
}

// Error says why and whether there is any use in another attempt.
func (e *Error) Error() string {
	if e.Final {
		return fmt.Sprintf("%s, for good: %v", e.Reason, e.Err)
	}
	return fmt.Sprintf("%s: %v", e.Reason, e.Err)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Retry returns an error after which the same batch is to be offered again.
func Retry(why Reason, err error) error {
	return &Error{Reason: why, Code: nodebinding.Unavailable, Err: err}
}

// Final returns an error after which the same batch is not to be offered again.
func Final(why Reason, code nodebinding.Code, err error) error {
	return &Error{Final: true, Reason: why, Code: code, Err: err}
}

// Classify returns the Error in err. An error that is none is to be tried again: what nobody has called final must not be
// lost. It returns nil for nil.
func Classify(err error) *Error {
	var e *Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &e):
		return e
	default:
		return &Error{Reason: Internal, Code: nodebinding.Unavailable, Err: err}
	}
}
