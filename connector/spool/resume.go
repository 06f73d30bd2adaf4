package spool

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
)

// torn says whether the end of a segment looks like an append that did not come to its end: it stops within a frame or a
// body, or nothing but zeros has reached the disk.
func torn(seg *segment, from int64) bool {
	left := seg.size.Load() - from
	tail := make([]byte, min(left, frameSize))
	if _, err := seg.file.ReadAt(tail, from); err != nil && !errors.Is(err, io.EOF) {
		return false
	}
	if left < frameSize {
		return true
	}
	if f := readFrame(tail); f.word == seg.word {
		return f.length <= bodyMost && frameSize+int64(f.length) > left
	}
	return zeros(seg, from)
}

func zeros(seg *segment, from int64) bool {
	buf := make([]byte, 64<<10)
	for at := from; at < seg.size.Load(); {
		n, err := seg.file.ReadAt(buf[:min(int64(len(buf)), seg.size.Load()-at)], at)
		if len(bytes.Trim(buf[:n], "\x00")) > 0 || n == 0 && err != nil {
			return false
		}
		at += int64(n)
	}
	return true
}

// resume finds the next whole record at or after a place, or the end.
func resume(seg *segment, from int64) (int64, error) {
	word := binary.LittleEndian.AppendUint64(nil, seg.word)
	buf := make([]byte, 64<<10)
	for from < seg.size.Load() {
		n, err := seg.file.ReadAt(buf[:min(int64(len(buf)), seg.size.Load()-from)], from)
		if err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
		i := bytes.Index(buf[:n], word)
		switch {
		case i < 0 && from+int64(n) >= seg.size.Load(), n < len(word):
			return seg.size.Load(), nil
		case i < 0:
			from += int64(n - len(word) + 1)
			continue
		}
		if _, err := seg.read(from + int64(i)); err == nil {
			return from + int64(i), nil
		} else if !errors.Is(err, errRecord) {
			return 0, err
		}
		from += int64(i) + 1
	}
	return seg.size.Load(), nil
}
