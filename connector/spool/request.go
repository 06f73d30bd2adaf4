package spool

import (
	"fmt"
	"math"

	"github.com/lanyard-k8s/lanyard/connector/sink"
)

// request is a batch on its way to the disk.
type request struct {
	buf       *[]byte
	charge    int64
	publisher string
	received  int64
	done      chan error
}

// keepMost is the largest buffer that is kept; a rare large batch would otherwise hold its memory for ever.
const keepMost = 64 << 10

// newRequest encodes a batch.
func (s *Spool) newRequest(b sink.Batch) (*request, error) {
	buf, kept := s.buffers.Get().(*[]byte)
	if !kept {
		buf = new([]byte)
	}
	body, err := appendBody(append((*buf)[:0], make([]byte, frameSize)...), s.o.NodeUID(), b)
	if err != nil {
		s.buffers.Put(buf)
		return nil, err
	}
	*buf = body
	if len(body)-frameSize > bodyMost {
		return nil, fmt.Errorf("a batch of %d bytes is beyond what the spool takes: %w", len(body), ErrFull)
	}
	return &request{
		buf: buf, charge: s.chargeOf(len(body)), publisher: b.Publisher(), received: b.Received.Unix(), done: make(chan error, 1),
	}, nil
}

// recycle gives the buffer back, from which the request has been written or will not be.
func (s *Spool) recycle(r *request) {
	if cap(*r.buf) <= keepMost {
		s.buffers.Put(r.buf)
	}
	r.buf = nil
}

// chargeOf is what a record of a size counts against the bound: its bytes and those of its journal.
func (s *Spool) chargeOf(size int) int64 { return max(int64(size+mark*len(s.lanes)), leastCharge) }

// clamp fits seconds into four bytes, which they do until the year 2106.
func clamp(seconds int64) uint32 { return uint32(max(0, min(seconds, math.MaxUint32))) }
