package spool

import (
	"hash/crc32"
	"sync/atomic"

	"golang.org/x/sync/semaphore"

	"github.com/lanyard-k8s/lanyard/connector/sink"
)

// attemptsAtOnce bounds the deliveries to one sink that are under way.
const attemptsAtOnce = 8

// lane is a sink and its name in the journals.
type lane struct {
	sink  sink.Sink
	id    uint32
	index int
	slots chan struct{}
	// share is what the records may take that are being delivered to the sink, in bytes, and memory what is free of it.
	share  int64
	memory *semaphore.Weighted
	taken  atomic.Int64 // batches that the sink took
	depth  int          // records that are not delivered; under the spool's lock
}

// newLane derives the lane's number from the sink's name, so that it stays the same whatever other sinks come and go.
func newLane(to sink.Sink, index int, share int64) *lane {
	id := crc32.Checksum([]byte(to.Name()), castagnoli())
	if id == nobodysLane {
		id++
	}
	return &lane{sink: to, id: id, index: index, slots: make(chan struct{}, attemptsAtOnce), share: share, memory: semaphore.NewWeighted(share)}
}

// place is where a record is.
type place struct {
	segment  *segment
	offset   uint32
	received uint32 // seconds
}

// queue holds the places of one publisher's records, oldest first. All of it is under the spool's lock.
type queue struct {
	publisher string
	base      int // what the first place would be numbered, had none ever been removed
	places    []place
	void      map[int]bool // records that were put aside
	progress  []progress   // by lane
}

// progress is how far one lane is with one publisher.
type progress struct {
	next int          // the number of the next record
	busy bool         // a worker is at it
	done map[int]bool // records beyond next that were delivered before a restart
}

// enqueue adds a record for every lane and wakes those that rest. The caller holds the lock.
func (s *Spool) enqueue(publisher string, p place) *queue {
	q := s.queues[publisher]
	if q == nil {
		q = &queue{publisher: publisher, void: map[int]bool{}, progress: make([]progress, len(s.lanes))}
		s.queues[publisher] = q
	}
	q.places = append(q.places, p)
	p.segment.pending += len(s.lanes)
	for _, l := range s.lanes {
		l.depth++
		s.wake(l, q)
	}
	return q
}

// wake starts a worker for a lane and a publisher if there is none and deliveries go on. The caller holds the lock.
func (s *Spool) wake(l *lane, q *queue) {
	p := &q.progress[l.index]
	if s.running == nil || s.running.Err() != nil || p.busy || p.next == q.end() {
		return
	}
	p.busy = true
	s.workers.Add(1)
	go s.work(s.running, l, q)
}

func (q *queue) end() int { return q.base + len(q.places) }

// head returns the next record for a lane, and takes those off that need no delivery. The caller holds the lock.
func (s *Spool) head(l *lane, q *queue) (number int, p place, ok bool) {
	for {
		at := &q.progress[l.index]
		if at.next == q.end() {
			return 0, place{}, false
		}
		if !q.void[at.next] && !at.done[at.next] {
			return at.next, q.places[at.next-q.base], true
		}
		s.advance(l, q)
	}
}

// advance moves a lane past its next record. The caller holds the lock.
func (s *Spool) advance(l *lane, q *queue) {
	at := &q.progress[l.index]
	seg := q.places[at.next-q.base].segment
	delete(at.done, at.next)
	at.next++
	l.depth--
	seg.pending--
	s.drop(seg)
	s.trim(q)
	s.rest()
}

// trim forgets the records that every lane is past, and the publisher when there are no others. The caller holds the lock.
func (s *Spool) trim(q *queue) {
	least := q.end()
	for _, p := range q.progress {
		least = min(least, p.next)
	}
	if least == q.end() {
		for n := range q.void {
			delete(q.void, n)
		}
		q.base, q.places = least, nil
		return
	}
	if gone := least - q.base; gone > len(q.places)/2 { // so that each place is copied about once
		for n := q.base; n < least; n++ {
			delete(q.void, n)
		}
		q.places = append([]place(nil), q.places[gone:]...)
		q.base = least
	}
}

// forget removes a publisher that has nothing left and nobody at work. The caller holds the lock.
func (s *Spool) forget(q *queue) {
	if len(q.places) > 0 {
		return
	}
	for _, p := range q.progress {
		if p.busy {
			return
		}
	}
	delete(s.queues, q.publisher)
}

// rest tells those who wait for it that nothing is pending. The caller holds the lock.
func (s *Spool) rest() {
	for _, l := range s.lanes {
		if l.depth > 0 {
			return
		}
	}
	close(s.idle)
	s.idle = make(chan struct{})
}
