package dockerjob

import (
	"context"
	"net/netip"
	"sync"
	"time"
)

// task is a job as this process knows it. What is not guarded by mu never changes after the container was created.
type task struct {
	row     string // the row's name, which is the submission's UID too
	id      string // the first 12 of its hex digits
	subject string
	spec    Spec
	created time.Time
	cancel  context.CancelFunc // ends the submission, while it lasts
	done    chan struct{}      // closed once the job has ended and its row was revoked

	// Filled in step by step by the submission, which is alone with them until the container has been started.
	host   netip.Addr // where the container reaches the exchange, as of the submission
	image  image
	ca     []byte // what the exchange's certificate is checked against, as of the submission
	volume string
	user   string   // whom the container runs as, if not simply as the image's user
	groups []string // and the groups that he has besides

	mu        sync.Mutex
	container string
	state     State
	ending    bool // somebody sees to its end
	stopping  bool // its submitter stopped it
	revoked   bool // its row was revoked, and its container goes for that reason
	doubted   bool // the last comparison found its container ended by the list, and could not look at it
	ended     time.Time
	exitCode  *int
	end       string
	readers   int           // who reads its output from the Engine just now
	read      bool          // somebody has read it to its end
	changed   chan struct{} // closed and replaced when readers or read change
	closed    bool          // nobody may begin to read from the Engine
	cleared   bool          // its container and volume were removed, or are nobody's business any more
	rest      *output       // the end of its output, once it is removed
}

func newTask(row, subject string, spec Spec, created time.Time, state State) *task {
	return &task{
		row: row, id: shortID(row), subject: subject, spec: spec, created: created, state: state,
		cancel: func() {}, done: make(chan struct{}), changed: make(chan struct{}),
	}
}

// view is what its submitter sees.
func (t *task) view() Job {
	t.mu.Lock()
	defer t.mu.Unlock()
	j := Job{
		ID: t.id, Workspace: t.spec.Workspace, Job: t.spec.Job, Task: t.spec.Task, Image: t.spec.Image, State: t.state,
		Created: t.created, Ended: t.ended, End: t.end,
	}
	if t.exitCode != nil {
		code := *t.exitCode
		j.ExitCode = &code
	}
	return j
}

// wait waits for the end.
func (t *task) wait(ctx context.Context) (Job, error) {
	select {
	case <-t.done:
		return t.view(), nil
	case <-ctx.Done():
		return Job{}, ctx.Err()
	}
}

// stop notes that the submitter wants the end. It returns the container to stop, or ends the submission that has none yet.
func (t *task) stop() (container string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.state == Ended {
		return ""
	}
	t.stopping = true
	if t.state == Starting {
		t.cancel()
		return ""
	}
	return t.container
}

// runs says whether the container is this one, and nobody sees to its end yet.
func (t *task) runs(container string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.container == container && t.state == Running && !t.ending
}

// drop notes that the container goes because its row was revoked.
func (t *task) drop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.revoked = true
}

// doubt notes whether its container is listed as ended, and says whether it was so the last time too.
func (t *task) doubt(ended bool) (again bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	again = ended && t.doubted
	t.doubted = ended
	return again
}

// reason is how it ended, since somebody wanted it to.
func (t *task) reason(end string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.revoked:
		return EndRevoked
	case t.stopping && end == EndExited:
		return EndStopped
	default:
		return end
	}
}

// take says whether the caller is the one to see to the end.
func (t *task) take() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ending {
		return false
	}
	t.ending = true
	return true
}

// over notes the end, once.
func (t *task) over(end string, code *int, at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.state == Ended {
		return
	}
	t.state, t.end, t.exitCode, t.ended = Ended, end, code, at
	close(t.done)
}

// begin lets somebody read from the Engine. What it returns says that he is done, and whether he has read to the end.
func (t *task) begin() (end func(toTheEnd bool), ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed || t.container == "" {
		return nil, false
	}
	t.readers++
	return func(toTheEnd bool) {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.readers--
		t.read = t.read || toTheEnd
		close(t.changed)
		t.changed = make(chan struct{})
	}, true
}

// linger waits for the output to be read: until a reader has got to the end, or for some time, and for those who still read once
// that is over, for as long again. Then nobody may begin any more.
func (t *task) linger(ctx context.Context, d time.Duration) {
	first, last := time.NewTimer(d), time.NewTimer(2*d)
	defer first.Stop()
	defer last.Stop()
	passed := false
	for {
		t.mu.Lock()
		if t.readers == 0 && (t.read || passed) {
			t.closed = true
		}
		closed, changed := t.closed, t.changed
		t.mu.Unlock()
		if closed {
			return
		}
		select {
		case <-changed:
		case <-first.C:
			passed = true
		case <-last.C:
			t.close()
			return
		case <-ctx.Done():
			t.close()
			return
		}
	}
}

// close lets nobody begin to read from the Engine any more.
func (t *task) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
}

// clear notes that nobody in this process is busy with the container and the volume any more: what is left of them is swept.
func (t *task) clear() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cleared = true
}

func (t *task) isCleared() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.cleared
}

// isEnding says whether somebody sees to its end.
func (t *task) isEnding() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ending
}
