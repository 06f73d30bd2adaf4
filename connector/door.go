package connector

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/recovery"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

	healtheventv1 "github.com/lanyard-k8s/lanyard/api/healthevent/v1"
)

// known says whether a method may be called at all. The health methods answer anybody; the one other identifies its caller
// itself. Whatever else somebody registers on the server, reflection for instance, is refused until it is entered here.
// The name is the registered method's, never the path as the caller spelled it.
func known(method string) bool {
	switch method {
	case healtheventv1.PlatformConnector_HealthEventOccurredV1_FullMethodName,
		healthv1.Health_Check_FullMethodName, healthv1.Health_Watch_FullMethodName:
		return true
	default:
		return false
	}
}

// door is the one interceptor for unary calls and streams: it denies what is not known and contains panics.
type door struct {
	metrics *Metrics
	seats   *seats
	// refuse is asked about a batch's header before its message is read.
	refuse func(context.Context, metadata.MD) error
	unary  grpc.UnaryServerInterceptor
	stream grpc.StreamServerInterceptor
}

func newDoor(m *Metrics, log logr.Logger, s *seats, refuse func(context.Context, metadata.MD) error) *door {
	// The panic's value may hold what a caller sent, so that only its type is shown.
	contain := recovery.WithRecoveryHandlerContext(func(_ context.Context, p any) error {
		m.panics.Inc()
		log.Error(nil, "a call panicked", "type", fmt.Sprintf("%T", p))
		return status.Error(codes.Internal, "the call could not be handled")
	})
	return &door{metrics: m, seats: s, refuse: refuse, unary: recovery.UnaryServerInterceptor(contain), stream: recovery.StreamServerInterceptor(contain)}
}

func (d *door) admit(method string) error {
	if known(method) {
		return nil
	}
	d.metrics.unknownMethods.Inc()
	return status.Error(codes.PermissionDenied, "this connector takes health events and nothing else")
}

// bodyIn is what a call may take until its message is there, if its caller set no nearer deadline.
const bodyIn = 10 * time.Second

// knock is asked before a call's message is read. It turns away what the interceptors would, without waiting for a message
// that may never end, and gives calls without a near deadline one: a caller that opens a call and never ends its message
// would hold a stream, and a seat, for ever. Callers that set one, as publishers do, need none. Health watches live on.
func (d *door) knock(ctx context.Context, info *tap.Info) (context.Context, error) {
	if err := d.admit(info.FullMethodName); err != nil {
		return ctx, err
	}
	switch info.FullMethodName {
	case healthv1.Health_Watch_FullMethodName:
		return ctx, nil
	case healtheventv1.PlatformConnector_HealthEventOccurredV1_FullMethodName:
		if err := d.refuse(ctx, info.Header); err != nil {
			return ctx, err
		}
		var err error
		if ctx, err = d.seats.take(ctx); err != nil {
			d.metrics.batches.WithLabelValues(batchHeldBack).Inc()
			return ctx, err
		}
	}
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= bodyIn {
		return ctx, nil
	}
	// The call's own context is ended by gRPC with the call, and takes this one along.
	ctx, cancel := context.WithTimeout(ctx, bodyIn)
	context.AfterFunc(ctx, cancel)
	return ctx, nil
}

func (d *door) interceptUnary(ctx context.Context, req any, info *grpc.UnaryServerInfo, h grpc.UnaryHandler) (any, error) {
	if err := d.admit(info.FullMethod); err != nil {
		return nil, err
	}
	return d.unary(ctx, req, info, h)
}

func (d *door) interceptStream(srv any, s grpc.ServerStream, info *grpc.StreamServerInfo, h grpc.StreamHandler) error {
	if err := d.admit(info.FullMethod); err != nil {
		return err
	}
	return d.stream(srv, s, info, h)
}

// strangers answers methods that nobody has registered. The interceptor has refused them before.
func (d *door) strangers(any, grpc.ServerStream) error {
	return status.Error(codes.PermissionDenied, "this connector takes health events and nothing else")
}
