package dockerjob

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"
)

// SetAt has f called after each step of a submission.
func (b *Backend) SetAt(f func(Step) error) { b.at = f }

// SetRandom draws proofs and names from r.
func (b *Backend) SetRandom(r io.Reader) { b.random = r }

// Reconciled compares once more, now.
func (b *Backend) Reconciled() error {
	b.mu.Lock()
	life := b.life
	b.mu.Unlock()
	if life == nil {
		return errors.New("it does not run")
	}
	partly, err := b.reconcile(life, life)
	return errors.Join(partly, err)
}

// Stopping says whether a job was told to stop.
func (b *Backend) Stopping(id string) bool {
	b.mu.Lock()
	t := b.tasks[id]
	b.mu.Unlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.stopping
}

// Ended enters a job that has ended.
func (b *Backend) Ended(subject, id string, at time.Time, cleared bool) {
	t := newTask(rowPrefix+id, subject, Spec{}, at, Running)
	t.over(EndExited, nil, at)
	t.cleared = cleared
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tasks[id] = t
}

// Last is the last lines of an output that came in these pieces; what begins with "!" went to standard error.
func Last(tail int, pieces ...string) string {
	var o output
	for _, p := range pieces {
		text, errs := strings.CutPrefix(p, "!")
		_, _ = stream{&o, errs}.Write([]byte(text))
	}
	var got []string
	for _, p := range o.last(tail) {
		mark := ""
		if p.stderr {
			mark = "!"
		}
		got = append(got, mark+string(p.text))
	}
	return strings.Join(got, "|")
}

// Prune forgets ended jobs.
func (b *Backend) Prune() { b.prune() }

// MaxKept is maxKept.
const MaxKept = maxKept

// Remapped says whether users of containers are other users on the machine.
func (e *Engine) Remapped(ctx context.Context) (bool, error) { return e.remapped(ctx) }
