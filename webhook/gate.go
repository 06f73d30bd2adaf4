package webhook

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/lanyard-k8s/lanyard/webhook/settings"
)

// budget is a number that may not be exceeded.
type budget struct {
	used atomic.Int64
	most int64
}

// take claims n, or says that there is not enough left.
func (b *budget) take(n int64) bool {
	if b.used.Add(n) > b.most {
		b.used.Add(-n)
		return false
	}
	return true
}

func (b *budget) give(n int64) { b.used.Add(-n) }

func (b *budget) full() bool { return b.used.Load() >= b.most }

// gate bounds what is worked on at a time. Requests count against calls and bytes only once their body is there, so that a
// client that sends slowly holds nothing that others need. Bodies that are still arriving count against a budget of their
// own, by what has really been received, and only beyond freeBytes: a flood of large bodies therefore cannot exhaust the
// memory, and ordinary reviews, which are smaller, get through it.
type gate struct {
	calls   budget
	bytes   budget
	arrival budget
	maxBody int64
	buffers sync.Pool
}

const (
	freeBytes = 32 << 10 // received without being counted
	keepBytes = 1 << 20  // larger buffers go back to the garbage collector
)

// Errors of reading a body.
var (
	errTooLarge = errors.New("the body is larger than limits.maxBodyBytes")
	errBusy     = errors.New("too many requests at a time")
	errCutShort = errors.New("the body ended early or came too slowly")
)

func newGate(l settings.Limits) *gate {
	return &gate{
		calls: budget{most: l.MaxInFlight}, bytes: budget{most: l.MaxInFlightBytes},
		arrival: budget{most: max(l.MaxInFlightBytes/2, l.MaxBodyBytes)}, maxBody: l.MaxBodyBytes,
		buffers: sync.Pool{New: func() any { b := make([]byte, 0, 16<<10); return &b }},
	}
}

// full says that a request would be refused anyway, before its body is read.
func (g *gate) full() bool { return g.calls.full() || g.bytes.full() }

// enter claims one call and its bytes.
func (g *gate) enter(n int) bool {
	if !g.calls.take(1) {
		return false
	}
	if !g.bytes.take(int64(n)) {
		g.calls.give(1)
		return false
	}
	return true
}

func (g *gate) leave(n int) {
	g.bytes.give(int64(n))
	g.calls.give(1)
}

// read returns the body in a buffer that recycle takes back.
func (g *gate) read(w http.ResponseWriter, r *http.Request) (*[]byte, error) {
	if r.ContentLength > g.maxBody {
		return nil, errTooLarge
	}
	body := http.MaxBytesReader(w, r.Body, g.maxBody)
	buf := g.buffers.Get().(*[]byte)
	counted := int64(0)
	defer func() { g.arrival.give(counted) }()
	for b := (*buf)[:0]; ; {
		if len(b) == cap(b) {
			more := min(int64(cap(b)), g.maxBody+1-int64(len(b))) // one byte more tells that the body is too large
			if len(b) >= freeBytes {
				if !g.arrival.take(more) {
					g.recycle(buf)
					return nil, errBusy
				}
				counted += more
			}
			b = append(make([]byte, 0, int64(len(b))+more), b...)
		}
		n, err := body.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		*buf = b
		if err == io.EOF {
			return buf, nil
		}
		if err != nil {
			g.recycle(buf)
			return nil, readError(err)
		}
	}
}

func readError(err error) error {
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return errTooLarge
	}
	return errCutShort
}

func (g *gate) recycle(buf *[]byte) {
	if cap(*buf) <= keepBytes {
		g.buffers.Put(buf)
	}
}
