package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/lanyard-k8s/lanyard/connector/sink"
)

// outcomeOf sorts the API server's answers: an outcome for what it will never take, which is no reason to hold up other
// nodes' events, or an error for what will pass.
func outcomeOf(err error) (sink.Outcome, error) {
	var known *sink.Error
	switch {
	case err == nil:
		return "", nil
	case errors.As(err, &known):
		return "", err
	case errors.Is(err, errNoNode), apierrors.IsNotFound(err):
		return sink.RefusedNode, nil
	case refusedByPolicy(err), apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsRequestEntityTooLargeError(err):
		return sink.RefusedByServer, nil
	default:
		return "", sink.Retry(passing(err), fmt.Errorf("write to the API server: %w", err))
	}
}

// refusedByPolicy tells the refusal of an admission policy or webhook, ours or somebody else's, which is about what was to
// be written and stays, from a missing right, which somebody will grant.
func refusedByPolicy(err error) bool {
	return apierrors.IsForbidden(err) &&
		(strings.Contains(err.Error(), "ValidatingAdmissionPolicy") || strings.Contains(err.Error(), "admission webhook"))
}

// passing is why the API server does not take it now.
func passing(err error) sink.Reason {
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled), apierrors.IsTimeout(err):
		return sink.Timeout
	case apierrors.IsUnauthorized(err), apierrors.IsForbidden(err):
		return sink.Unauthorized
	case apierrors.IsTooManyRequests(err), apierrors.IsServerTimeout(err), apierrors.IsServiceUnavailable(err):
		return sink.Busy
	case apierrors.IsConflict(err):
		return sink.Conflict
	case apierrors.ReasonForError(err) != "":
		return sink.Internal
	default:
		return sink.Unreachable
	}
}
