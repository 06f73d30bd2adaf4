// Package waiting is where token requests sit whose pod has not been judged yet. Whoever judges calls Judged, and those that wait
// for this row look again. Nobody polls, and the seats are bounded: in all, and for one row, so that a pod that asks over and
// over takes no seat from the others.
//
//	seat, err := room.Enter(row)     // first the seat, then the look: a judgement in between is not missed
//	defer seat.Leave()
//	standing, err := store.Get(ctx, row)
//	err = seat.Wait(ctx)             // nil: look again
package waiting

import (
	"context"
	"errors"
	"sync"

	"github.com/lanyard-k8s/lanyard/delegation"
)

// The bounds (spec, section 4): as many requests of one row, and as many in all.
const (
	DefaultPerRow = 2
	DefaultTotal  = 256
)

// ErrFull: there is no seat, for this row or at all. The request is told to come again.
var ErrFull = errors.New("too many requests wait already")

// Room is the waiting room. Make one with New; it may be used by several goroutines.
type Room struct {
	perRow, total int

	mu    sync.Mutex
	seats map[string][]*Seat
	taken int
}

// New is a room with so many seats a row and in all.
func New(perRow, total int) *Room {
	return &Room{perRow: perRow, total: total, seats: map[string][]*Seat{}}
}

// Seat is one request's place. It is left by Leave, once.
type Seat struct {
	room  *Room
	row   string
	woken chan struct{} // holds one call, so that a judgement before Wait is not lost
}

// Enter takes a seat for a row, or says ErrFull.
func (r *Room) Enter(row string) (*Seat, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.taken >= r.total || len(r.seats[row]) >= r.perRow {
		return nil, ErrFull
	}
	s := &Seat{room: r, row: row, woken: make(chan struct{}, 1)}
	r.seats[row] = append(r.seats[row], s)
	r.taken++
	return s, nil
}

// Wait returns nil when the row was judged since Enter or the last Wait, or the context's error.
func (s *Seat) Wait(ctx context.Context) error {
	select {
	case <-s.woken:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Leave gives the seat up.
func (s *Seat) Leave() {
	r := s.room
	r.mu.Lock()
	defer r.mu.Unlock()
	seats := r.seats[s.row]
	for i, other := range seats {
		if other != s {
			continue
		}
		r.taken--
		if len(seats) == 1 {
			delete(r.seats, s.row)
			return
		}
		r.seats[s.row] = append(seats[:i:i], seats[i+1:]...)
		return
	}
}

// Judged wakes the requests that wait for a row; an empty row wakes all of them. It never blocks.
func (r *Room) Judged(row string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if row != "" {
		wake(r.seats[row])
		return
	}
	for _, seats := range r.seats {
		wake(seats)
	}
}

func wake(seats []*Seat) {
	for _, s := range seats {
		select {
		case s.woken <- struct{}{}:
		default: // called already
		}
	}
}

// Taken is how many wait, for metrics.
func (r *Room) Taken() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.taken
}

// Follow calls Judged for every change that a store tells of, until ctx ends. So a replica that judges nothing itself learns what
// the leader has judged.
func (r *Room) Follow(ctx context.Context, store delegation.Notifier) error {
	for change := range store.Changes(ctx) {
		r.Judged(change.Row)
	}
	return nil
}
