package socket

import (
	"context"
	"sync"
)

// How many jobs are being started at once, in all and of one user. More wait for their turn: an Engine that is asked for hundreds
// of containers at once answers none of them in time. One user's wait does not hold up another's.
const (
	startsInAll   = 16
	startsPerUser = 8
)

// starts are the places.
type starts struct {
	all chan struct{}

	mu   sync.Mutex
	each map[uint32]*queue
}

// queue is one user's places; it is there for as long as somebody has or wants one.
type queue struct {
	places chan struct{}
	users  int
}

func newStarts() *starts {
	return &starts{all: make(chan struct{}, startsInAll), each: map[uint32]*queue{}}
}

// enter waits for a place, and returns what gives it up.
func (s *starts) enter(ctx context.Context, uid uint32) (leave func(), err error) {
	own := s.join(uid)
	select {
	case own.places <- struct{}{}:
	case <-ctx.Done():
		s.part(uid)
		return nil, ctx.Err()
	}
	select {
	case s.all <- struct{}{}:
	case <-ctx.Done():
		<-own.places
		s.part(uid)
		return nil, ctx.Err()
	}
	return func() {
		<-s.all
		<-own.places
		s.part(uid)
	}, nil
}

func (s *starts) join(uid uint32) *queue {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.each[uid] == nil {
		s.each[uid] = &queue{places: make(chan struct{}, startsPerUser)}
	}
	s.each[uid].users++
	return s.each[uid]
}

func (s *starts) part(uid uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.each[uid].users--; s.each[uid].users == 0 {
		delete(s.each, uid)
	}
}
