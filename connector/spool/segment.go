package spool

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

// A segment's file starts with 32 bytes: "LANYARD1", the segment's random word, its number, four bytes of zero and the
// CRC32C of all that. Beside it lies its journal: 12 bytes a delivery, the record's place in the file, the lane's number and
// the CRC32C of both. The lane 0 stands for all lanes: the record was put aside.
const (
	magic       = "LANYARD1"
	headerSize  = 32
	mark        = 12
	segmentExt  = ".segment"
	journalExt  = ".journal"
	nobodysLane = uint32(0)
)

var errHeader = errors.New("the segment's first bytes cannot be read")

// segment is one file of records. charge, pending and sealed are under the spool's lock.
type segment struct {
	number uint64
	word   uint64
	file   file
	size   atomic.Int64

	charge  int64 // what it takes of the bound
	pending int   // records that a lane has yet to deliver, counted once for each lane
	sealed  bool  // nothing is appended any more

	journalMu sync.Mutex
	journal   file
}

func segmentName(n uint64) string { return fmt.Sprintf("%016x", n) + segmentExt }

func journalName(n uint64) string { return fmt.Sprintf("%016x", n) + journalExt }

// numberOf reads a file's name.
func numberOf(name, ext string) (uint64, bool) {
	digits, found := strings.CutSuffix(name, ext)
	n, err := strconv.ParseUint(digits, 16, 64)
	return n, found && err == nil && len(digits) == 16
}

// newSegment makes a segment whose name and first bytes are durable.
func newSegment(d disk, number uint64) (*segment, error) {
	f, err := d.create(segmentName(number))
	if err != nil {
		return nil, fmt.Errorf("make a segment: %w", err)
	}
	var word [8]byte
	if _, err := rand.Read(word[:]); err != nil {
		return nil, errors.Join(fmt.Errorf("make a segment's word: %w", err), f.Close(), d.remove(segmentName(number)))
	}
	seg := &segment{number: number, word: binary.LittleEndian.Uint64(word[:]), file: f, charge: headerSize}
	seg.size.Store(headerSize)
	if _, err = f.Write(seg.header()); err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = d.sync(".")
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make a segment: %w", err), f.Close(), d.remove(segmentName(number)))
	}
	return seg, nil
}

func (s *segment) header() []byte {
	h := make([]byte, 0, headerSize)
	h = append(h, magic...)
	h = binary.LittleEndian.AppendUint64(h, s.word)
	h = binary.LittleEndian.AppendUint64(h, s.number)
	h = append(h, 0, 0, 0, 0)
	return binary.LittleEndian.AppendUint32(h, crc32.Checksum(h, castagnoli()))
}

// readHeader reads the word of a segment that is already there.
func (s *segment) readHeader() error {
	h := make([]byte, headerSize)
	if _, err := s.file.ReadAt(h, 0); err != nil {
		return errHeader
	}
	s.word = binary.LittleEndian.Uint64(h[8:])
	if string(h) != string(s.header()) {
		return errHeader
	}
	return nil
}

// read returns the body at a place. errRecord means that there is none that fits; every other error is the disk's.
func (s *segment) read(offset int64) ([]byte, error) {
	var header [frameSize]byte
	if _, err := s.file.ReadAt(header[:], offset); err != nil {
		return nil, endless(err)
	}
	f := readFrame(header[:])
	if f.word != s.word || f.length > bodyMost || offset+frameSize+int64(f.length) > s.size.Load() {
		return nil, errRecord
	}
	body := make([]byte, f.length)
	if _, err := s.file.ReadAt(body, offset+frameSize); err != nil {
		return nil, endless(err)
	}
	if !f.fits(header[:], body) {
		return nil, errRecord
	}
	return body, nil
}

// lengthAt is how long the body at a place is by its frame, no more than the file; 0 where nothing can be read, as read will say.
func (s *segment) lengthAt(offset int64) int64 {
	var header [frameSize]byte
	if _, err := s.file.ReadAt(header[:], offset); err != nil {
		return 0
	}
	return min(int64(readFrame(header[:]).length), bodyMost, s.size.Load())
}

// endless turns the end of a file into a record that is none.
func endless(err error) error {
	if errors.Is(err, io.EOF) {
		return errRecord
	}
	return err
}

// note writes into the journal that a lane is done with the record at a place.
func (s *segment) note(d disk, offset int64, lane uint32) error {
	s.journalMu.Lock()
	defer s.journalMu.Unlock()
	if s.journal == nil {
		f, err := d.open(journalName(s.number))
		if err != nil {
			return fmt.Errorf("open a journal: %w", err)
		}
		s.journal = f
	}
	m := binary.LittleEndian.AppendUint32(make([]byte, 0, mark), uint32(offset))
	m = binary.LittleEndian.AppendUint32(m, lane)
	m = binary.LittleEndian.AppendUint32(m, crc32.Checksum(m, castagnoli()))
	if _, err := s.journal.Write(m); err != nil {
		return fmt.Errorf("write a journal: %w", err)
	}
	return nil
}

// done is one line of a journal.
type done struct {
	offset uint32
	lane   uint32
}

// readJournal returns the lines that are whole. A torn or damaged line only means that a delivery is repeated.
func readJournal(f file, size int64) (map[done]bool, error) {
	raw := make([]byte, size)
	if n, err := f.ReadAt(raw, 0); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read a journal: %w", err)
	} else if int64(n) < size {
		raw = raw[:n]
	}
	found := map[done]bool{}
	for len(raw) >= mark {
		if crc32.Checksum(raw[:8], castagnoli()) == binary.LittleEndian.Uint32(raw[8:]) {
			found[done{binary.LittleEndian.Uint32(raw), binary.LittleEndian.Uint32(raw[4:])}] = true
			raw = raw[mark:]
			continue
		}
		raw = raw[1:] // after a torn line the next one begins anywhere
	}
	return found, nil
}

func (s *segment) close() error {
	s.journalMu.Lock()
	defer s.journalMu.Unlock()
	err := s.file.Close()
	if s.journal != nil {
		err = errors.Join(err, s.journal.Close())
		s.journal = nil
	}
	return err
}

// remove closes the segment and deletes its files. The journal goes last: alone it means nothing, while without it
// the segment would be delivered again.
func (s *segment) remove(d disk) error {
	err := errors.Join(s.close(), d.remove(segmentName(s.number)))
	if e := d.remove(journalName(s.number)); !errors.Is(e, fs.ErrNotExist) {
		err = errors.Join(err, e)
	}
	return err
}
