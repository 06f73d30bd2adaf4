package dockerjob

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/pkg/stdcopy"
)

// LogOptions say what of a job's output is wanted.
type LogOptions struct {
	// Follow goes on until the job has ended.
	Follow bool
	// Tail is how many lines from the end are wanted; 0 is all.
	Tail int
}

// ErrInterrupted: the output could not be read to its end, since the Engine went away or broke it off. What follows can be asked for again.
var ErrInterrupted = errors.New("the output was interrupted: the Docker Engine went away; ask again")

// Logs writes a job's output. Of one whose container is removed already, the last 64 KiB are there.
func (b *Backend) Logs(ctx context.Context, subject, ref string, o LogOptions, stdout, stderr io.Writer) error {
	t, err := b.find(subject, ref)
	if err != nil {
		return err
	}
	done, ok := t.begin()
	if !ok {
		return t.replay(o.Tail, stdout, stderr)
	}
	toTheEnd := false
	defer func() { done(toTheEnd) }()
	stream, err := b.engine.logs(ctx, t.container, o.Follow, o.Tail)
	if errors.Is(err, errGone) {
		return t.replay(o.Tail, stdout, stderr)
	}
	if err != nil {
		return err
	}
	defer stream.Close()
	out, errs := &sink{w: stdout}, &sink{w: stderr}
	_, err = stdcopy.StdCopy(out, errs, stream)
	if err == nil && o.Follow {
		err = b.addMissed(ctx, t, o.Tail, out, errs)
	}
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return ctx.Err()
	case out.err != nil || errs.err != nil:
		return errors.Join(out.err, errs.err)
	default:
		return fmt.Errorf("%w: %w", ErrInterrupted, err)
	}
	// A reader of a job that had ended when he began has seen all that there will be.
	toTheEnd = t.view().State == Ended || o.Follow
	return nil
}

// mostReread bounds what of a followed output is read a second time.
const mostReread = 1 << 20

// errGoesOn: the Engine has ended a stream, and the container runs.
var errGoesOn = errors.New("the Docker Engine ended the output of a container that runs")

// addMissed reads an output that was followed to its end once more, and writes what was not in it: an Engine (20.10) that is short of time may
// end the stream of a container that has just exited before all, or anything, of what it said was sent. Of much output nothing is
// added, and of that which began with the last lines only if nothing came at all: what would be missing could not be told.
func (b *Backend) addMissed(ctx context.Context, t *task, tail int, out, errs *sink) error {
	if s, err := b.engine.inspect(ctx, t.container); err == nil && s.runs {
		return errGoesOn
	}
	got := out.n + errs.n
	if got > mostReread || tail > 0 && got > 0 {
		return nil
	}
	stream, err := b.engine.logs(ctx, t.container, false, tail)
	switch {
	case err == nil:
	case !errors.Is(err, errGone) && !errdefs.IsConflict(err):
		return err
	case got > 0: // the container goes already
		return nil
	default:
		return t.replay(tail, out, errs)
	}
	defer stream.Close()
	_, err = stdcopy.StdCopy(&rest{out, out.n}, &rest{errs, errs.n}, stream)
	return err
}

// rest leaves out the beginning of what is written, which was written before.
type rest struct {
	w    io.Writer
	skip int64
}

func (r *rest) Write(p []byte) (int, error) {
	seen := min(int64(len(p)), r.skip)
	r.skip -= seen
	if seen == int64(len(p)) {
		return len(p), nil
	}
	n, err := r.w.Write(p[seen:])
	return int(seen) + n, err
}

// sink counts what its reader took, and remembers that it was the reader who could not take more.
type sink struct {
	w   io.Writer
	n   int64
	err error
}

func (s *sink) Write(p []byte) (int, error) {
	n, err := s.w.Write(p)
	s.n += int64(n)
	s.err = err
	return n, err
}

// restSize and restLines bound what is kept of an ended job's output.
const (
	restSize  = 64 << 10
	restLines = 2000
)

// output is the end of what a job has said.
type output struct {
	parts []part
	size  int
}

type part struct {
	stderr bool
	text   []byte
}

// stream writes one of the two streams into an output.
type stream struct {
	o      *output
	stderr bool
}

func (s stream) Write(p []byte) (int, error) {
	o := s.o
	o.parts = append(o.parts, part{s.stderr, append([]byte(nil), p...)})
	o.size += len(p)
	for o.size > restSize && len(o.parts) > 0 {
		first := &o.parts[0]
		drop := min(o.size-restSize, len(first.text))
		first.text = first.text[drop:]
		o.size -= drop
		if len(first.text) == 0 {
			o.parts = o.parts[1:]
		}
	}
	return len(p), nil
}

// keepRest reads the end of an ended job's output, before its container goes.
func (b *Backend) keepRest(ctx context.Context, t *task) {
	ctx, cancel := b.limited(ctx)
	defer cancel()
	in, err := b.engine.logs(ctx, t.container, false, restLines)
	if err != nil {
		return // it is gone, or the Engine is
	}
	defer in.Close()
	var o output
	if _, err := stdcopy.StdCopy(stream{&o, false}, stream{&o, true}, in); err != nil {
		b.log.V(1).Info("the end of a job's output could not be read", "id", t.id)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.rest = &o
}

// replay writes what was kept, or the last lines of it.
func (t *task) replay(tail int, stdout, stderr io.Writer) error {
	t.mu.Lock()
	rest := t.rest
	t.mu.Unlock()
	if rest == nil {
		return nil
	}
	for _, p := range rest.last(tail) {
		w := stdout
		if p.stderr {
			w = stderr
		}
		if _, err := w.Write(p.text); err != nil {
			return err
		}
	}
	return nil
}

// last is the end of it: so many lines of both streams together, or all for 0. A stream's last line may lack its end.
func (o *output) last(tail int) []part {
	if tail <= 0 {
		return o.parts
	}
	var end []part
	open := map[bool]bool{true: true, false: true} // whether the end of the stream's next line was not seen yet
	for _, p := range slices.Backward(o.parts) {
		from := len(p.text)
		for from > 0 {
			ends := p.text[from-1] == '\n'
			if ends || open[p.stderr] { // a line begins here, seen from behind
				if tail == 0 {
					break
				}
				tail--
			}
			open[p.stderr] = false
			from = bytes.LastIndexByte(p.text[:from-1], '\n') + 1
		}
		if from < len(p.text) {
			end = append(end, part{p.stderr, p.text[from:]})
		}
		if from > 0 {
			break
		}
	}
	slices.Reverse(end)
	return end
}
