package connector

import (
	"context"
	"errors"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	grpcproto "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	healtheventv1 "github.com/lanyard-k8s/lanyard/api/healthevent/v1"
	"github.com/lanyard-k8s/lanyard/api/healthevent/weight"
)

// envelope is a call's message as it came. gRPC would decode it before anybody may look, and a message of some megabytes can be
// hundreds once it is decoded.
type envelope struct{ data mem.BufferSlice }

// sealed is gRPC's codec for protobuf, but for envelopes, which it leaves closed.
type sealed struct{ encoding.CodecV2 }

func newCodec() encoding.CodecV2 { return sealed{encoding.GetCodecV2(grpcproto.Name)} }

// Unmarshal decodes a message, or puts it into an envelope.
func (c sealed) Unmarshal(data mem.BufferSlice, v any) error {
	e, closed := v.(*envelope)
	if !closed {
		return c.CodecV2.Unmarshal(data, v)
	}
	data.Ref()
	e.data = data
	return nil
}

// pooledAtMost is the longest message that is put together in gRPC's pool, which hands out a megabyte for the next larger one.
const pooledAtMost = 32 << 10

// joined is the message in one piece; the envelope is empty then.
func (e *envelope) joined() mem.Buffer {
	defer e.free()
	if len(e.data) == 1 || e.data.Len() <= pooledAtMost {
		return e.data.MaterializeToBuffer(mem.DefaultBufferPool())
	}
	return mem.SliceBuffer(e.data.Materialize())
}

func (e *envelope) free() {
	e.data.Free()
	e.data = nil
}

// opener decodes the batches of calls, if they are no more than they may be and there is room for them.
type opener struct {
	bounds  weight.Bounds
	metrics *Metrics
	log     logr.Logger
	seldom  rate.Sometimes
}

// describe is the service's description with a handler of ours in the place of the one that was generated.
func (o *opener) describe() *grpc.ServiceDesc {
	desc := healtheventv1.PlatformConnector_ServiceDesc
	desc.Methods = []grpc.MethodDesc{{MethodName: desc.Methods[0].MethodName, Handler: o.handle}}
	return &desc
}

// handle is a call of HealthEventOccurredV1. The message is opened behind the interceptor, which contains panics.
func (o *opener) handle(srv any, ctx context.Context, receive func(any) error, intercept grpc.UnaryServerInterceptor) (any, error) {
	e := &envelope{}
	if err := receive(e); err != nil {
		return nil, err
	}
	defer e.free()
	info := &grpc.UnaryServerInfo{Server: srv, FullMethod: healtheventv1.PlatformConnector_HealthEventOccurredV1_FullMethodName}
	return intercept(ctx, e, info, func(ctx context.Context, _ any) (any, error) {
		one, err := begin(ctx)
		if err != nil {
			return nil, err
		}
		defer one.leave()
		batch, err := o.open(ctx, e, one)
		if err != nil {
			return nil, err
		}
		return srv.(healtheventv1.PlatformConnectorServer).HealthEventOccurredV1(ctx, batch)
	})
}

// open weighs the message and decodes it. While it does there are at most two copies of the bytes beside what is decoded, and afterwards the
// record that is made for the spool, or what a sink sends.
func (o *opener) open(ctx context.Context, e *envelope, one *seat) (*healtheventv1.HealthEvents, error) {
	copies := 2 * int64(e.data.Len())
	if err := one.hold(copies); err != nil {
		return nil, o.heldBack(err)
	}
	raw := e.joined()
	defer raw.Free()
	w, err := weight.Scan(raw.ReadOnlyData(), o.bounds)
	if err != nil {
		return nil, o.refuse(ctx, err)
	}
	if err := one.hold(copies + w.Bytes); err != nil {
		return nil, o.heldBack(err)
	}
	batch := &healtheventv1.HealthEvents{}
	if proto.Unmarshal(raw.ReadOnlyData(), batch) != nil { // its error may quote the message
		return nil, o.refuse(ctx, weight.ErrUnreadable)
	}
	return batch, nil
}

func (o *opener) heldBack(err error) error {
	o.metrics.batches.WithLabelValues(batchHeldBack).Inc()
	return err
}

// refuse counts and answers a message that will not be decoded. A line a second at most says who sends such.
func (o *opener) refuse(ctx context.Context, err error) error {
	o.metrics.batches.WithLabelValues(batchInvalid).Inc()
	o.seldom.Do(func() {
		o.log.Info("a message is refused before it is decoded", "detail", err.Error(), "user", connectionOf(ctx).user)
	})
	s := status.New(codes.InvalidArgument, err.Error())
	var excess *weight.Excess
	if errors.As(err, &excess) {
		return tooMuch(s)
	}
	return s.Err()
}

func newOpener(bounds weight.Bounds, m *Metrics, log logr.Logger) *opener {
	return &opener{bounds: bounds, metrics: m, log: log, seldom: rate.Sometimes{Interval: time.Second}}
}
