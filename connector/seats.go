package connector

import (
	"context"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// smallMessage is what a call may carry without keeping its seat: nearly every batch is much smaller.
const smallMessage = 64 << 10

// seats bound the memory that messages take. A call has a seat from its headers on, since nobody knows how much will follow
// and gRPC takes in a whole message before it asks anybody, to the moment when its message has turned out to be small, or
// else to its end. Calls and connections alone are no bound: a few hundred calls that each send all but the last byte of
// the largest message would hold gigabytes.
type seats struct {
	most  int64
	taken atomic.Int64
}

// seatKey is where a call's context keeps how its seat is given back.
type seatKey struct{}

// take gives a call a seat until its context ends, or says that there is none.
func (s *seats) take(ctx context.Context) (context.Context, error) {
	if s.taken.Add(1) > s.most {
		s.taken.Add(-1)
		return ctx, status.Error(codes.Unavailable, "too many messages are on their way; try again")
	}
	leave := sync.OnceFunc(func() { s.taken.Add(-1) })
	context.AfterFunc(ctx, leave)
	return context.WithValue(ctx, seatKey{}, leave), nil
}

// arrived gives the seat back if the message is small.
func arrived(ctx context.Context, message any) {
	leave, seated := ctx.Value(seatKey{}).(func())
	if m, ok := message.(proto.Message); seated && ok && proto.Size(m) <= smallMessage {
		leave()
	}
}
