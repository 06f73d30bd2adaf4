package spool

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
)

// recover reads what an earlier process left: every segment in order, and what of it was delivered. No old segment is
// appended to.
func (s *Spool) recover() error {
	if err := s.countAside(); err != nil {
		return err
	}
	names, err := s.disk.list(".")
	if err != nil {
		return err
	}
	sizes, journals := map[uint64]int64{}, map[uint64]int64{}
	for name, size := range names {
		if n, ok := numberOf(name, segmentExt); ok {
			sizes[n] = size
		} else if n, ok := numberOf(name, journalExt); ok {
			journals[n] = size
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range slices.Sorted(maps.Keys(sizes)) {
		s.nextNumber = n + 1
		if err := s.recoverSegment(n, sizes[n], journals[n]); err != nil {
			return err
		}
		delete(journals, n)
	}
	for n := range journals { // of segments that are gone
		s.nextNumber = max(s.nextNumber, n+1)
		if err := s.disk.remove(journalName(n)); err != nil {
			return fmt.Errorf("remove a journal: %w", err)
		}
	}
	return nil
}

// recoverSegment reads one segment. The caller holds the lock.
func (s *Spool) recoverSegment(n uint64, size, journal int64) error {
	f, err := s.disk.open(segmentName(n))
	if err != nil {
		return fmt.Errorf("open a segment: %w", err)
	}
	seg := &segment{number: n, file: f, sealed: true, charge: headerSize}
	seg.size.Store(size)
	if err := seg.readHeader(); err != nil {
		return s.headless(seg)
	}
	known, err := s.readProgress(seg, journal)
	if err != nil {
		return errors.Join(err, seg.close())
	}
	s.segments[n] = seg
	seg.pending++ // so that it is not removed while it is read
	err = s.scan(seg, func(offset int64, h head) { s.restore(seg, offset, h, known) })
	seg.pending--
	s.used += seg.charge
	if err != nil {
		return err
	}
	s.drop(seg)
	return nil
}

// readProgress reads a segment's journal.
func (s *Spool) readProgress(seg *segment, size int64) (map[done]bool, error) {
	if size == 0 {
		return nil, nil
	}
	f, err := s.disk.open(journalName(seg.number))
	if err != nil {
		return nil, fmt.Errorf("open a journal: %w", err)
	}
	known, err := readJournal(f, size)
	return known, errors.Join(err, f.Close())
}

// restore queues a record for the lanes that have not delivered it.
func (s *Spool) restore(seg *segment, offset int64, h head, known map[done]bool) {
	at := uint32(offset)
	if known[done{at, nobodysLane}] {
		return
	}
	q := s.enqueue(h.publisher(), place{segment: seg, offset: at, received: clamp(h.batch.Received.Unix())})
	for _, l := range s.lanes {
		if !known[done{at, l.id}] {
			continue
		}
		p := &q.progress[l.index]
		if p.done == nil {
			p.done = map[int]bool{}
		}
		p.done[q.end()-1] = true
	}
	for _, l := range s.lanes {
		s.head(l, q) // takes off what is delivered
	}
	s.forget(q)
}

// headless deals with a segment without its first bytes. One that holds nothing else was being made when its process ended;
// any other is put aside as it is.
func (s *Spool) headless(seg *segment) error {
	if seg.size.Load() <= headerSize {
		s.o.Hooks.torn(seg.size.Load())
		return seg.remove(s.disk)
	}
	s.o.Hooks.quarantined(Corrupt)
	s.o.Log.Error(errHeader, "a segment is put aside", "segment", segmentName(seg.number))
	s.aside.files++
	s.aside.bytes += seg.size.Load()
	return errors.Join(seg.close(), s.disk.rename(segmentName(seg.number), path.Join(asideFolder, segmentName(seg.number))))
}

// scan calls each for every record of a segment. After one that cannot be read it goes on at the next that can; what lies
// between is put aside. What lies after the last is an append that was never acknowledged when it runs to the end of the file and is not
// whole.
func (s *Spool) scan(seg *segment, each func(offset int64, h head)) error {
	at := int64(headerSize)
	for at < seg.size.Load() {
		body, err := seg.read(at)
		if err == nil {
			if h, err := readHead(body); err == nil {
				each(at, h)
			} else {
				s.putAside(seg, at, Unreadable, body)
			}
			at += frameSize + int64(len(body))
			seg.charge += s.chargeOf(frameSize + len(body))
			continue
		}
		if !errors.Is(err, errRecord) {
			return fmt.Errorf("read %s: %w", segmentName(seg.number), err)
		}
		next, err := resume(seg, at+1)
		if err != nil {
			return fmt.Errorf("read %s: %w", segmentName(seg.number), err)
		}
		if err := s.skip(seg, at, next); err != nil {
			return err
		}
		seg.charge += next - at
		at = next
	}
	return nil
}

// skip deals with bytes that are no record.
func (s *Spool) skip(seg *segment, from, to int64) error {
	if to == seg.size.Load() && torn(seg, from) {
		s.o.Hooks.torn(to - from)
		return nil
	}
	lost := make([]byte, min(to-from, s.o.Bytes/16))
	if _, err := seg.file.ReadAt(lost, from); err != nil {
		return fmt.Errorf("read %s: %w", segmentName(seg.number), err)
	}
	s.putAside(seg, from, Corrupt, lost)
	return nil
}

// putAside quarantines while the lock is held.
func (s *Spool) putAside(seg *segment, at int64, why Reason, body []byte) {
	s.mu.Unlock()
	defer s.mu.Lock()
	s.quarantine(place{segment: seg, offset: uint32(at)}, why, body, errRecord)
}
