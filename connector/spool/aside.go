package spool

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
)

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
	for _, size := range kept {
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

// keep writes bytes into the folder and says whether it did.
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
	f, err := s.disk.create(path.Join(asideFolder, name))
	if errors.Is(err, fs.ErrExist) {
		return true
	}
	if err == nil {
		_, err = f.Write(body)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		s.o.Log.Error(err, "a record that is put aside cannot be kept", "record", name)
	}
	return err == nil
}
