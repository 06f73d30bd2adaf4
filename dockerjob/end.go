package dockerjob

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/lanyard-k8s/lanyard/delegation"
)

// abandon undoes a submission that failed. What cannot be undone now, since the database or the Engine is away just then, is tried
// again until it is: its submitter was told that it failed, so that it must not come back as a running job.
func (b *Backend) abandon(ctx context.Context, t *task) {
	if !t.take() {
		return // it had begun to run, and somebody sees to its end already
	}
	err := b.undo(context.WithoutCancel(ctx), t) // it is not given up because the submitter is gone
	t.over(EndFailed, nil, b.now())
	t.close()
	b.metrics.running.Dec()
	b.metrics.ended.WithLabelValues(EndFailed).Inc()
	if err != nil {
		b.log.Error(err, "undo a submission; trying again", "id", t.id)
		if b.spawn(func(ctx context.Context) { b.undoLater(ctx, t) }) {
			return
		}
	}
	b.forget(t)
}

// undo ends the row first: nothing that is left standing is of use without it.
func (b *Backend) undo(ctx context.Context, t *task) error {
	return errors.Join(b.revoke(ctx, t.row, delegation.StartFailed), b.clear(ctx, t))
}

func (b *Backend) undoLater(ctx context.Context, t *task) {
	for pause := firstPause; sleep(ctx, pause); pause = min(2*pause, lastPause) {
		if b.undo(ctx, t) == nil {
			b.forget(t)
			return
		}
	}
}

// forget takes a job that never was off the list. What is left of it is swept.
func (b *Backend) forget(t *task) {
	t.clear()
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.tasks, t.id)
}

// revoke ends a submission and its row. That there is none is no error: the submission may have failed before it was stored.
func (b *Backend) revoke(ctx context.Context, row string, why delegation.Reason) error {
	ctx, cancel := b.limited(ctx)
	defer cancel()
	_, err := b.store.Revoke(ctx, delegation.Revocation{Submission: row, Reason: why, At: b.now()})
	if errors.Is(err, delegation.ErrNotFound) {
		return nil
	}
	return storeFault(err)
}

// clear removes a task's container and volume.
func (b *Backend) clear(ctx context.Context, t *task) error {
	var err error
	t.mu.Lock()
	container := t.container
	t.mu.Unlock()
	if container != "" {
		err = b.removeContainer(ctx, container)
	}
	if t.volume != "" {
		err = errors.Join(err, b.removeVolume(ctx, t.volume))
	}
	return err
}

func (b *Backend) removeContainer(ctx context.Context, id string) error {
	ctx, cancel := b.limited(ctx)
	defer cancel()
	return b.engine.remove(ctx, id)
}

func (b *Backend) removeVolume(ctx context.Context, name string) error {
	ctx, cancel := b.limited(ctx)
	defer cancel()
	return b.engine.removeVolume(ctx, name)
}

// look sees whether the task with this container has ended.
func (b *Backend) look(container string) {
	b.mu.Lock()
	var found *task
	for _, t := range b.tasks {
		if t.runs(container) {
			found = t
		}
	}
	b.mu.Unlock()
	if found != nil {
		b.spawn(func(ctx context.Context) { b.check(ctx, found) })
	}
}

// check asks the Engine how a running task stands, and sees to its end. An Engine that does not answer says nothing: an outage is
// not the end of a job.
func (b *Backend) check(ctx context.Context, t *task) {
	inspecting, cancel := b.limited(ctx)
	s, err := b.engine.inspect(inspecting, t.container)
	cancel()
	switch {
	case errors.Is(err, errGone):
		b.finish(ctx, t, EndRemoved, nil)
	case err != nil && ctx.Err() == nil:
		b.log.Error(err, "look at a container; looking again later", "id", t.id)
	case err != nil:
	case !s.runs:
		end := EndExited
		if s.oom {
			end = EndOutOfMemory
		}
		b.finish(ctx, t, end, &s.exitCode)
	}
}

// finish ends a task: the row first, then whoever waits for it, then its output, container and volume.
func (b *Backend) finish(ctx context.Context, t *task, end string, code *int) {
	if !t.take() {
		return
	}
	end = t.reason(end)
	_ = b.reached(StepNoticed)
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, 5*time.Second) {
		err := b.revoke(ctx, t.row, delegation.ContainerEnded)
		if err == nil {
			break
		}
		// Nobody who asks can be told that it is over before it is. A restart finds the row again.
		b.log.Error(err, "revoke the row of a job that has ended; trying again", "id", t.id)
		if !sleep(ctx, pause) {
			return
		}
	}
	_ = b.reached(StepRevoked)
	t.over(end, code, b.now())
	b.metrics.running.Dec()
	b.metrics.ended.WithLabelValues(end).Inc()
	b.log.Info("job ended", "id", t.id, "end", end)
	if end != EndRemoved && end != EndRevoked {
		t.linger(ctx, b.s.Linger)
		b.keepRest(ctx, t)
	}
	_ = b.reached(StepRead)
	t.close()
	defer t.clear()
	if err := b.clear(ctx, t); err != nil && ctx.Err() == nil {
		b.log.Error(err, "remove an ended job's container and volume; trying again later", "id", t.id)
	}
	b.prune()
}

// maxKept bounds how many ended jobs are kept, with 64 KiB of output each.
const maxKept = 500

// prune forgets jobs that ended long ago, and of too many the oldest of whoever has the most, so that nobody can push another's out.
// What somebody is still busy with is no matter of it.
func (b *Backend) prune() {
	b.mu.Lock()
	defer b.mu.Unlock()
	ended, kept := map[string][]*task{}, 0 // by submitter
	for id, t := range b.tasks {
		switch v := t.view(); {
		case v.State != Ended || !t.isCleared():
		case b.now().Sub(v.Ended) > b.s.Keep:
			delete(b.tasks, id)
		default:
			ended[t.subject] = append(ended[t.subject], t)
			kept++
		}
	}
	if kept <= maxKept {
		return
	}
	for _, own := range ended {
		slices.SortFunc(own, func(x, y *task) int { return y.view().Ended.Compare(x.view().Ended) })
	}
	for ; kept > maxKept; kept-- {
		most := ""
		for subject, own := range ended {
			if len(own) > len(ended[most]) {
				most = subject
			}
		}
		last := len(ended[most]) - 1
		delete(b.tasks, ended[most][last].id)
		ended[most] = ended[most][:last]
	}
}

// sleep waits, and says whether the time passed.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
