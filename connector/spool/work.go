package spool

import (
	"context"
	"math/rand/v2"
	"time"
)

// work delivers one publisher's records to one sink, one after the other, until there is none left.
func (s *Spool) work(ctx context.Context, l *lane, q *queue) {
	defer s.workers.Done()
	failures := 0
	var t trouble
	for {
		s.mu.Lock()
		number, p, ok := s.head(l, q)
		if !ok || ctx.Err() != nil {
			q.progress[l.index].busy = false
			s.forget(q)
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
		r := s.attempt(ctx, l, p)
		switch {
		case r.unfit != nil:
			s.reject(q, number, p, *r.unfit)
			s.pass(l, q)
		case r.done, s.givesUp(l, p, &t, r):
			s.note(p, l.id)
			s.pass(l, q)
		default:
			failures++
			wait(ctx, s.pause(failures)) // if ctx ends, so does the loop
			continue
		}
		failures, t = 0, trouble{}
	}
}

// pause doubles with each failure up to the most, and is cut by up to a half at random.
func (s *Spool) pause(failures int) time.Duration {
	full := s.o.RetryMost
	if shift := failures - 1; shift < 30 && s.least<<shift < full {
		full = s.least << shift
	}
	return full/2 + rand.N(full/2+1)
}

// note writes down that a record needs no further delivery by a lane, or by any.
func (s *Spool) note(p place, lane uint32) {
	if err := p.segment.note(s.disk, int64(p.offset), lane); err != nil {
		s.o.Log.Error(err, "progress is not noted; a restart repeats the delivery")
	}
}

// pass moves a lane on.
func (s *Spool) pass(l *lane, q *queue) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.advance(l, q)
}

// reject puts a record aside for every lane; the first that comes upon it does so.
func (s *Spool) reject(q *queue, number int, p place, u unfit) {
	s.mu.Lock()
	first := !q.void[number]
	q.void[number] = true
	s.mu.Unlock()
	if first {
		s.note(p, nobodysLane)
		s.quarantine(p, u.why, u.body, u.cause)
	}
}
