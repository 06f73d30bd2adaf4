package forward

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lanyard-k8s/lanyard/api/healthevent/weight"
	"github.com/lanyard-k8s/lanyard/connector/nodebinding"
	"github.com/lanyard-k8s/lanyard/connector/sink"
)

// classify says which answers are about the batch and will be the same another time. What is about us, the other side or the
// way there is tried again: the spool keeps the batch, and dropping it would lose it for a fault that somebody will mend.
func classify(err error, token string) error {
	if err == nil {
		return nil
	}
	st := status.Convert(err)
	code := nodebinding.FromGRPC(uint32(st.Code()))
	err = fmt.Errorf("the other connector answers %s: %q", st.Code(), redacted(st.Message(), token))
	switch st.Code() {
	case codes.Unavailable:
		return sink.Retry(sink.Unreachable, err)
	case codes.DeadlineExceeded, codes.Canceled:
		return sink.Retry(sink.Timeout, err)
	case codes.ResourceExhausted:
		if tooLarge(st.Message()) {
			return sink.Final(sink.TooLarge, nodebinding.InvalidArgument, err)
		}
		return sink.Retry(sink.Busy, err)
	case codes.InvalidArgument:
		if tooMany(st) {
			return sink.Final(sink.TooLarge, code, err)
		}
		return sink.Final(sink.Refused, code, err)
	case codes.Aborted:
		return sink.Retry(sink.Conflict, err)
	case codes.Unauthenticated:
		return sink.Retry(sink.Unauthorized, err)
	case codes.PermissionDenied, codes.FailedPrecondition, codes.OutOfRange, codes.AlreadyExists, codes.NotFound:
		return sink.Final(sink.Refused, code, err)
	default: // Internal, Unknown, DataLoss, Unimplemented
		return sink.Retry(sink.Internal, err)
	}
}

// tooMany tells a batch with more events than the other side takes from what else may be wrong with one.
func tooMany(st *status.Status) bool {
	return slices.ContainsFunc(st.Details(), func(detail any) bool {
		info, ok := detail.(*errdetails.ErrorInfo)
		return ok && info.GetReason() == weight.ErrorReason && info.GetDomain() == weight.ErrorDomain
	})
}

// tooLarge tells a call beyond the size that the other side takes from one too many: gRPC has one code for both, and these
// words for the first (in Go and C++, and in Java).
func tooLarge(message string) bool {
	return strings.Contains(message, "larger than max") || strings.Contains(message, "exceeds maximum size")
}
