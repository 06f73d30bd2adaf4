package spool

import (
	"context"
	"fmt"
	"time"
)

// A group is what shares one write and one fsync.
const (
	groupRequests = 512
	groupBytes    = 4 << 20
)

// write is the goroutine that alone writes segments. It ends when the requests do.
func (s *Spool) write() {
	defer close(s.written)
	group := make([]*request, 0, groupRequests)
	for r := range s.requests {
		group = s.gather(append(group[:0], r))
		err := s.commit(group)
		for _, r := range group {
			if err != nil {
				s.release(r)
			} else {
				s.recycle(r)
			}
			r.done <- err
		}
	}
	s.sealActive()
}

// gather waits for more requests for the group's time, or takes those that are waiting already.
func (s *Spool) gather(group []*request) []*request {
	size := len(*group[0].buf)
	var late <-chan time.Time
	if s.o.Group > 0 {
		timer := time.NewTimer(s.o.Group)
		defer timer.Stop()
		late = timer.C
	}
	for len(group) < groupRequests && size < groupBytes {
		r, more := s.next(late)
		if !more {
			break
		}
		group, size = append(group, r), size+len(*r.buf)
	}
	return group
}

func (s *Spool) next(late <-chan time.Time) (*request, bool) {
	if late == nil {
		select {
		case r, ok := <-s.requests:
			return r, ok
		default:
			return nil, false
		}
	}
	select {
	case r, ok := <-s.requests:
		return r, ok
	case <-late:
		return nil, false
	}
}

// commit writes a group, makes it durable and hands it to the lanes.
func (s *Spool) commit(group []*request) error {
	seg, err := s.room()
	if err != nil {
		return err
	}
	joined := s.joined[:0]
	for _, r := range group {
		seal(*r.buf, seg.word)
		joined = append(joined, *r.buf...)
	}
	if cap(joined) <= groupBytes {
		s.joined = joined
	}
	if _, err = seg.file.Write(joined); err == nil {
		err = seg.file.Sync()
	}
	if err != nil {
		s.giveUp(seg)
		return fmt.Errorf("write to the spool: %w", err)
	}
	s.publish(seg, group)
	if seg.size.Load() >= s.segmentSize() {
		s.sealActive() // at once: a full spool would not come to append to the next
	}
	return nil
}

// publish hands what is durable to the lanes.
func (s *Spool) publish(seg *segment, group []*request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range group {
		at := seg.size.Load()
		seg.size.Store(at + int64(len(*r.buf)))
		seg.charge += r.charge
		s.enqueue(r.publisher, place{segment: seg, offset: uint32(at), received: clamp(r.received)})
	}
}

// giveUp cuts off what may have been written of a group and appends nothing more to the segment: after a failed fsync
// nobody knows what is on the disk. What cannot be cut off was never acknowledged; it may be delivered after a restart.
func (s *Spool) giveUp(seg *segment) {
	if err := seg.file.Truncate(seg.size.Load()); err != nil {
		s.o.Log.Error(err, "cannot cut off what was not acknowledged", "segment", segmentName(seg.number))
	}
	s.sealActive()
}

// room returns the segment to append to, a new one when there is none.
func (s *Spool) room() (*segment, error) {
	if s.active != nil {
		return s.active, nil
	}
	s.mu.Lock()
	number := s.nextNumber
	s.nextNumber++
	s.mu.Unlock()
	seg, err := newSegment(s.disk, number)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.active, s.segments[number] = seg, seg
	s.used += seg.charge
	return seg, nil
}

// segmentSize is a sixty-fourth of the bound, so that little of it is held by a segment that is all but delivered.
func (s *Spool) segmentSize() int64 { return max(4<<10, min(s.o.Bytes/64, 1<<30)) }

func (s *Spool) sealActive() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.active == nil {
		return
	}
	s.active.sealed = true
	s.drop(s.active)
	s.active = nil
}

// drop removes a segment that every lane is done with. The caller holds the lock.
func (s *Spool) drop(seg *segment) {
	if !seg.sealed || seg.pending > 0 {
		return
	}
	delete(s.segments, seg.number)
	s.used -= seg.charge
	if err := seg.remove(s.disk); err != nil {
		s.o.Log.Error(err, "cannot remove a delivered segment", "segment", segmentName(seg.number))
	}
}

// wait returns after a pause, or when ctx ends.
func wait(ctx context.Context, pause time.Duration) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
