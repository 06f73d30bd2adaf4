package spool

import (
	"errors"
	"fmt"
	"path"
	"strings"
)

// partExt ends the name of a file that is being written.
const partExt = ".part"

// asideFiles bounds the number of records that are kept aside; their bytes are bounded by a sixteenth of the spool's.
const asideFiles = 256

// aside counts what is kept in the folder of records that were put aside; under the spool's lock.
type aside struct {
	files int
	bytes int64
}

func (s *Spool) countAside() error {
	kept, err := s.disk.list(asideFolder)
	if err != nil {
		return err
	}
	for name, size := range kept {
		if strings.HasSuffix(name, partExt) { // its process ended while it was written; the record is where it was
			if err := s.disk.remove(path.Join(asideFolder, name)); err != nil {
				return fmt.Errorf("remove a half-written file: %w", err)
			}
			continue
		}
		s.aside.files++
		s.aside.bytes += size
	}
	return nil
}

// quarantine counts a record that may not go on, and keeps its bytes for somebody to look at while there is room. The cause
// comes from the checks or from whoever decides, never from the record.
func (s *Spool) quarantine(p place, why Reason, body []byte, cause error) {
	name := fmt.Sprintf("%016x-%08x.record", p.segment.number, p.offset)
	s.o.Hooks.quarantined(why)
	kept := s.keep(name, body)
	s.o.Log.Error(cause, "a record is put aside", "reason", why, "record", name, "kept", kept)
}

// keep writes bytes into the folder, durably, and says whether they are there.
func (s *Spool) keep(name string, body []byte) bool {
	s.mu.Lock()
	fits := s.aside.files < asideFiles && s.aside.bytes+int64(len(body)) <= s.o.Bytes/16
	if fits {
		s.aside.files++
		s.aside.bytes += int64(len(body))
	}
	s.mu.Unlock()
	if !fits {
		return false
	}
	err := s.writeAside(path.Join(asideFolder, name), body)
	if err == nil {
		return true
	}
	s.mu.Lock()
	s.aside.files--
	s.aside.bytes -= int64(len(body))
	s.mu.Unlock()
	s.o.Log.Error(err, "a record that is put aside cannot be kept", "record", name)
	return false
}

// writeAside makes a file that is there with all its bytes or not at all.
func (s *Spool) writeAside(name string, body []byte) error {
	f, err := s.disk.create(name + partExt)
	if err != nil {
		return err
	}
	_, err = f.Write(body)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = s.disk.rename(name+partExt, name)
	}
	if err != nil {
		return errors.Join(err, s.disk.remove(name+partExt))
	}
	return s.disk.sync(asideFolder)
}
