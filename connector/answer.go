package connector

import (
	"context"
	"errors"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lanyard-k8s/lanyard/api/healthevent/weight"
	"github.com/lanyard-k8s/lanyard/connector/nodebinding"
	"github.com/lanyard-k8s/lanyard/connector/sink"
)

// The mark by which publishers tell an outage of the review's backend from every other Unavailable. Both words are
// NVSentinel's.
const (
	OutageReason = "NVSENTINEL_AUTH_BACKEND_UNAVAILABLE"
	OutageDomain = "nvsentinel.nvidia.com"
)

// answerTo turns an outcome that refuses a batch into a status. The caller sees a fixed sentence.
func answerTo(o nodebinding.Outcome) error {
	s := status.New(codes.Code(o.Code.GRPC()), o.Message())
	if o.Outage {
		if marked, err := s.WithDetails(&errdetails.ErrorInfo{Reason: OutageReason, Domain: OutageDomain}); err == nil {
			s = marked
		}
	}
	return s.Err()
}

// tooMuch marks the refusal of a batch that holds more than it may: whoever forwards batches sends it in parts then.
func tooMuch(s *status.Status) error {
	if marked, err := s.WithDetails(&errdetails.ErrorInfo{Reason: weight.ErrorReason, Domain: weight.ErrorDomain}); err == nil {
		s = marked
	}
	return s.Err()
}

// answerToDelivery turns what an Intake said into a status. Publishers try Unavailable and DeadlineExceeded again and drop
// a batch on everything else, so that only what is final is anything else.
func answerToDelivery(err error) error {
	var e *sink.Error
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return status.Error(codes.DeadlineExceeded, "the batch could not be kept in time; try again")
	case errors.Is(err, context.Canceled):
		return status.Error(codes.Canceled, "the caller did not wait")
	case errors.As(err, &e) && e.Final && e.Code != nodebinding.OK:
		return status.Error(codes.Code(e.Code.GRPC()), "the batch is not taken: "+final(e.Reason))
	default:
		return status.Error(codes.Unavailable, "the batch could not be kept at the moment; try again")
	}
}

// final says why a batch will never be taken.
func final(r sink.Reason) string {
	switch r {
	case sink.CrossNode:
		return "this connector takes batches about its own node alone; report to the deployment connector"
	case sink.TooLarge:
		return "an event is too large"
	default:
		return "whoever it was meant for refuses it"
	}
}
