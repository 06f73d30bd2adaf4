package jobs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Stream says what a frame carries.
type Stream byte

// The streams. A stream without an End was cut short.
const (
	Stdout Stream = 1
	Stderr Stream = 2
	// End is the last frame. Its payload is empty, or a Failure as JSON.
	End Stream = 3
)

// frameAtMost bounds a frame's payload.
const frameAtMost = 64 << 10

// frameHeader is the stream and the payload's length, big endian.
const frameHeader = 5

// ErrFrame is a stream that is none of ours.
var ErrFrame = errors.New("the stream of output cannot be read")

// WriteFrame writes one frame, or several if the payload is long.
func WriteFrame(w io.Writer, s Stream, payload []byte) error {
	for {
		n := min(len(payload), frameAtMost)
		frame := make([]byte, frameHeader, frameHeader+n)
		frame[0] = byte(s)
		binary.BigEndian.PutUint32(frame[1:], uint32(n))
		if _, err := w.Write(append(frame, payload[:n]...)); err != nil {
			return err
		}
		if payload = payload[n:]; len(payload) == 0 {
			return nil
		}
	}
}

// ReadFrame reads one frame. io.EOF is the end of the stream between two frames, io.ErrUnexpectedEOF within one.
func ReadFrame(r io.Reader) (Stream, []byte, error) {
	var header [frameHeader]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return 0, nil, err
	}
	s, n := Stream(header[0]), binary.BigEndian.Uint32(header[1:])
	if n > frameAtMost || s < Stdout || s > End {
		return 0, nil, fmt.Errorf("%w: stream %d of %d bytes", ErrFrame, s, n)
	}
	payload := make([]byte, n)
	if _, err := io.ReadFull(r, payload); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return 0, nil, err
	}
	return s, payload, nil
}
