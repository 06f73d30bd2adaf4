package connector

import (
	"context"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lanyard-k8s/lanyard/internal/places"
)

// seats bound the memory that messages take, in bytes. A call has a seat for the largest message from its headers on, since
// nobody knows how much will follow and gRPC takes in a whole message before it asks anybody; once the message is there the seat is as
// large as what is made of it, to the call's end. Calls and connections alone are no bound: a few hundred calls that each
// send all but the last byte of the largest message would hold gigabytes. One user of a Unix socket may have three quarters at
// most, and one address a quarter, so that the others' calls find room: a seat is taken before a credential is looked at.
type seats struct {
	most  int64 // bytes
	first int64 // what a call takes before its message is there

	mu    sync.Mutex
	taken int64
	by    map[places.Key]int64
}

// ofOne is the most that is counted for one call, and how much one user may have.
func (s *seats) ofOne() int64 { return s.most - s.most/4 }

// share is how much all calls of a key may have. Whoever comes by an address may use many, as nobody can be many users of a socket.
func (s *seats) share(k places.Key) int64 {
	if _, ok := k.User(); ok {
		return s.ofOne()
	}
	return s.most / 4
}

// seat is what one call has of it.
type seat struct {
	seats *seats
	from  places.Key
	bytes int64 // under the seats' lock
	begun bool  // the call's handler gives it back, and not the end of its context
}

// seatKey is where a call's context keeps its seat.
type seatKey struct{}

var errNoSeat = status.Error(codes.Unavailable, "too many messages are on their way; try again")

// take gives a call a seat until its context ends, or says that there is none.
func (s *seats) take(ctx context.Context) (context.Context, error) {
	one := &seat{seats: s, from: connectionOf(ctx).from}
	s.mu.Lock()
	fits := s.count(one, s.first)
	s.mu.Unlock()
	if !fits {
		return ctx, errNoSeat
	}
	context.AfterFunc(ctx, one.abandon)
	return context.WithValue(ctx, seatKey{}, one), nil
}

// count changes what a seat takes, and says whether it did: growing needs room. What is more than one call may ever have counts as
// that much, so that it has its turn; and the one call of a key may be larger than its share. Where nobody is known no share is
// counted. The caller holds the lock.
func (s *seats) count(one *seat, bytes int64) bool {
	bytes = min(bytes, s.ofOne())
	by, own := bytes-one.bytes, s.by[one.from]
	others := own - one.bytes // of the same key
	if by > 0 && (s.taken+by > s.most || one.from.Known() && others > 0 && own+by > s.share(one.from)) {
		return false
	}
	one.bytes = bytes
	s.taken += by
	if !one.from.Known() {
		return true
	}
	if s.by == nil {
		s.by = map[places.Key]int64{}
	}
	if s.by[one.from] += by; s.by[one.from] == 0 {
		delete(s.by, one.from)
	}
	return true
}

// begin hands the seat of a call to its handler, which gives it back: what a handler works on stays in the memory when its caller
// hangs up. It fails for a call that has lost its seat by that already.
func begin(ctx context.Context) (*seat, error) {
	one, seated := ctx.Value(seatKey{}).(*seat)
	if !seated {
		return nil, status.Error(codes.Internal, "the call has no seat")
	}
	one.seats.mu.Lock()
	defer one.seats.mu.Unlock()
	if one.bytes == 0 {
		return nil, status.Error(codes.Canceled, "the caller did not wait")
	}
	one.begun = true
	return one, nil
}

// hold makes the seat as large as what the call takes, or says that there is no room for it now.
func (one *seat) hold(bytes int64) error {
	one.seats.mu.Lock()
	defer one.seats.mu.Unlock()
	if !one.seats.count(one, max(bytes, 1)) {
		return errNoSeat
	}
	return nil
}

// leave gives the seat back.
func (one *seat) leave() {
	one.seats.mu.Lock()
	defer one.seats.mu.Unlock()
	one.seats.count(one, 0)
}

// abandon gives back the seat of a call that has ended before its message was there.
func (one *seat) abandon() {
	one.seats.mu.Lock()
	defer one.seats.mu.Unlock()
	if !one.begun {
		one.seats.count(one, 0)
	}
}
