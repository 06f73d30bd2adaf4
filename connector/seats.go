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
// the largest message would hold gigabytes. One user of a Unix socket may have three quarters of them at most, so that the
// others' calls find one.
type seats struct {
	most  int64
	taken atomic.Int64

	mu     sync.Mutex
	byUser map[int64]int64
}

// seatKey is where a call's context keeps how its seat is given back.
type seatKey struct{}

// count changes how many seats a user has, and says whether that many are too many for one. Where users are not told apart
// (-1) nobody counts.
func (s *seats) count(user, by int64) (tooMany bool) {
	if user < 0 {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byUser == nil {
		s.byUser = map[int64]int64{}
	}
	n := s.byUser[user] + by
	if s.byUser[user] = n; n == 0 {
		delete(s.byUser, user)
	}
	return n > s.most-s.most/4
}

// take gives a call a seat until its context ends, or says that there is none.
func (s *seats) take(ctx context.Context) (context.Context, error) {
	user := connectionOf(ctx).user
	leave := sync.OnceFunc(func() { s.taken.Add(-1); s.count(user, -1) })
	if all, one := s.taken.Add(1) > s.most, s.count(user, 1); all || one {
		leave()
		return ctx, status.Error(codes.Unavailable, "too many messages are on their way; try again")
	}
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
