package socket

import (
	"io"
	"net/http"
	"sync"

	"github.com/lanyard-k8s/lanyard/api/jobs"
)

// frames writes both outputs of a job onto one answer, kept apart, each piece at once.
type frames struct {
	w     http.ResponseWriter
	flush func() error

	mu      sync.Mutex
	started bool
	skip    map[jobs.Stream]int64 // how much of each output the reader has already
}

func newFrames(w http.ResponseWriter, skipOut, skipErr int64) *frames {
	return &frames{w: w, flush: http.NewResponseController(w).Flush, skip: map[jobs.Stream]int64{jobs.Stdout: skipOut, jobs.Stderr: skipErr}}
}

// to is a writer for one of the outputs.
func (f *frames) to(s jobs.Stream) io.Writer { return output{f, s} }

type output struct {
	frames *frames
	stream jobs.Stream
}

// Write sends a piece, or what of it is new.
func (o output) Write(p []byte) (int, error) {
	piece := o.frames.fresh(o.stream, p)
	if len(piece) > 0 {
		if err := o.frames.write(o.stream, piece); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// fresh is the part of a piece that the reader does not have.
func (f *frames) fresh(s jobs.Stream, p []byte) []byte {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := min(f.skip[s], int64(len(p)))
	f.skip[s] -= n
	return p[n:]
}

func (f *frames) write(s jobs.Stream, payload []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.started {
		f.started = true
		f.w.Header().Set("Content-Type", jobs.MediaFrames)
		f.w.WriteHeader(http.StatusOK)
	}
	if err := jobs.WriteFrame(f.w, s, payload); err != nil {
		return err
	}
	return f.flush()
}

// begun says whether anything was sent, after which no status can be.
func (f *frames) begun() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.started
}
