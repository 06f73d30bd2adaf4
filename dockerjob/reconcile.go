package dockerjob

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/lanyard-k8s/lanyard/delegation"
)

// reconcile compares what stands on the Engine with the rows. An Engine that does not answer decides nothing. What it lists is listed
// before the rows are read, so that a container of a job that starts meanwhile has its row seen.
//
//	row PENDING that nobody is working on           revoked: its submission died
//	row ACTIVE, container runs                      taken over, and renewed in time
//	row ACTIVE, container ended or gone             ended
//	job of ours whose row was revoked               container removed
//	container or volume with our label, no live row removed
//	submission without a row                        closed
//	anything else about a single row                left as it is until the next time
//
// An error means that nothing could be compared: the Engine or the database gives no list. What goes wrong with a single row is in partly,
// and keeps nobody else's job from starting.
func (b *Backend) reconcile(ctx, life context.Context) (partly, err error) {
	listing, cancel := b.limited(ctx)
	defer cancel()
	containers, err := b.engine.containers(listing, b.s.Instance)
	if err != nil {
		return nil, err
	}
	volumes, err := b.engine.volumes(listing, b.s.Instance)
	if err != nil {
		return nil, err
	}
	rows, err := b.rows(ctx)
	if err != nil {
		return nil, err
	}
	listed := make(map[string]labelled, len(containers))
	for _, c := range containers {
		listed[c.id] = c
	}
	live := make(map[string]string, len(rows)) // the container of each row
	var errs []error
	for _, r := range rows {
		alive, err := b.judge(ctx, life, r, listed[r.Bound.Value])
		if err != nil && ctx.Err() == nil {
			b.metrics.unknown.Inc()
			b.log.Error(err, "a row is left as it is; looking again later", "id", shortID(r.Name))
		}
		errs = append(errs, err)
		if alive || err != nil {
			live[r.Name] = r.Bound.Value
		}
	}
	errs = append(errs, b.dropRevoked(ctx, life, live), b.closeBare(ctx, live))
	b.sweep(ctx, containers, volumes, live)
	b.prune()
	return errors.Join(errs...), ctx.Err()
}

// rows reads all rows of containers that are not revoked.
func (b *Backend) rows(ctx context.Context) ([]delegation.Row, error) {
	var all []delegation.Row
	for _, state := range []delegation.RowState{delegation.Pending, delegation.Active} {
		for after := ""; ; {
			page, err := b.store.Rows(ctx, delegation.RowQuery{Kind: delegation.Docker, State: state, After: after})
			if err != nil {
				return nil, storeFault(err)
			}
			all = append(all, page...)
			if len(page) < delegation.MaxPage {
				break
			}
			after = page[len(page)-1].Name
		}
	}
	return all, nil
}

// judge decides about one row: whether it is alive. An error means that nobody knows, and so that nothing is done to it.
func (b *Backend) judge(ctx, life context.Context, r delegation.Row, listed labelled) (alive bool, err error) {
	t := b.taskOf(r.Name)
	if t != nil {
		switch v := t.view(); {
		case v.State == Starting:
			return true, nil // its submission is at work
		case v.State == Ended || t.isEnding():
			return false, nil // its end is being seen to
		case r.State == delegation.Pending:
			return true, nil // it became active since the row was read
		}
	}
	if r.State == delegation.Pending {
		b.metrics.left.WithLabelValues(leftRow).Inc()
		b.log.Info("revoking the row of a submission that was not finished", "id", shortID(r.Name))
		return false, b.revoke(ctx, r.Name, delegation.StartFailed)
	}
	s := standing{runs: listed.runs, image: listed.image}
	var unseen error
	if !listed.runs {
		// The list was made before the row was read; what it does not show is looked at by itself.
		if s, unseen = b.seen(ctx, r.Bound.Value); unseen != nil {
			s.image = listed.image
		}
	}
	if t == nil {
		if t, err = b.adopt(ctx, r, s.image); err != nil || t == nil {
			return false, err
		}
	}
	switch {
	case unseen != nil:
		return b.doubt(life, t, listed, unseen)
	case !s.runs:
		b.work.Go(func() { b.check(life, t) })
		return false, nil
	default:
		t.doubt(false)
		return true, b.renew(ctx, r)
	}
}

// lookTimeout is how long one row's container is looked at: an Engine may keep silent about a single one, and the others wait meanwhile.
const lookTimeout = 10 * time.Second

// seen is how a container stands; one that is gone does not run.
func (b *Backend) seen(ctx context.Context, id string) (standing, error) {
	ctx, cancel := context.WithTimeout(ctx, min(lookTimeout, b.s.Timeout))
	defer cancel()
	s, err := b.engine.inspect(ctx, id)
	if errors.Is(err, errGone) {
		return standing{}, nil
	}
	return s, err
}

// doubt decides about a job whose container the Engine does not list as running and says nothing else about. An error is not the end of a
// job, so that its row stays; but it is not renewed, and counts for what is left of its time at most. Where the list says twice in a
// row that the container has ended, that is believed: it is not started again, only its exit code is not to be had, and a proof must
// not outlive its container because somebody broke its inspection.
func (b *Backend) doubt(life context.Context, t *task, listed labelled, unseen error) (alive bool, err error) {
	if again := t.doubt(listed.ended); !again {
		return true, unseen
	}
	b.log.Error(unseen, "a container has ended, by the list alone: its exit code is not known", "id", t.id)
	b.work.Go(func() { b.finish(life, t, EndExited, nil) })
	return false, nil
}

// adopt takes a job over that an earlier process began, or revokes its row if there is nobody that it belongs to: t is nil then.
func (b *Backend) adopt(ctx context.Context, r delegation.Row, image string) (*task, error) {
	got, err := b.store.Get(ctx, r.Name)
	if err != nil && !errors.Is(err, delegation.ErrNotFound) {
		return nil, storeFault(err)
	}
	if got.Row.State != delegation.Active {
		return nil, nil // it has ended since the row was read
	}
	s := got.Submission
	if !s.Live() || !strings.HasPrefix(r.Name, rowPrefix) {
		b.metrics.left.WithLabelValues(leftRow).Inc()
		return nil, b.revoke(ctx, r.Name, delegation.ContainerEnded)
	}
	job, name, _ := strings.Cut(s.Name, "/")
	t := newTask(r.Name, s.Submitter, Spec{Workspace: s.Namespace, Job: job, Task: name, Image: image}, r.CreatedAt, Running)
	t.container, t.volume = r.Bound.Value, volumeName(t.spec, t.id)
	b.mu.Lock()
	b.tasks[t.id] = t
	b.mu.Unlock()
	b.metrics.running.Inc()
	b.log.Info("took a running job over", "id", t.id)
	return t, nil
}

// renew lets a row last on once half of its time is over.
func (b *Backend) renew(ctx context.Context, r delegation.Row) error {
	if r.ExpiresAt.Sub(b.now()) > b.s.MaxAge/2 {
		return nil
	}
	r.ExpiresAt = b.now().Add(b.s.MaxAge)
	_, err := b.store.Put(ctx, r)
	if errors.Is(err, delegation.ErrEnded) {
		return nil // revoked meanwhile; dropRevoked sees it the next time
	}
	return storeFault(err)
}

// dropRevoked ends jobs whose row somebody has revoked: an admin, or everything that its submitter has.
func (b *Backend) dropRevoked(ctx, life context.Context, live map[string]string) error {
	var errs []error
	for _, t := range b.running() {
		if _, ok := live[t.row]; ok {
			continue
		}
		got, err := b.store.Get(ctx, t.row)
		switch {
		case err != nil && !errors.Is(err, delegation.ErrNotFound):
			errs = append(errs, storeFault(err))
			continue
		case err == nil && got.Row.State != delegation.Revoked && got.Submission.Live():
			continue // it has just begun
		}
		b.log.Info("ending a job whose identity was revoked", "id", t.id)
		t.drop()
		b.work.Go(func() {
			if err := b.removeContainer(life, t.container); err != nil {
				b.log.Error(err, "remove the container of a revoked job; trying again later", "id", t.id)
				return
			}
			b.finish(life, t, EndRevoked, nil)
		})
	}
	return errors.Join(errs...)
}

// closeBare closes submissions that never got a row, since whoever made them died in between.
func (b *Backend) closeBare(ctx context.Context, live map[string]string) error {
	for after := ""; ; {
		page, err := b.store.Submissions(ctx, delegation.SubmissionQuery{State: delegation.Confirmed, After: after})
		if err != nil {
			return storeFault(err)
		}
		for _, s := range page {
			after = s.UID
			if _, ok := live[s.UID]; ok || s.GroupKind != groupKind || b.taskOf(s.UID) != nil {
				continue
			}
			if _, err := b.store.Get(ctx, s.UID); !errors.Is(err, delegation.ErrNotFound) {
				continue // a row is there: judge has seen to it, or will
			}
			b.metrics.left.WithLabelValues(leftRow).Inc()
			if err := b.revoke(ctx, s.UID, delegation.StartFailed); err != nil {
				return err
			}
		}
		if len(page) < delegation.MaxPage {
			return nil
		}
	}
}

// sweep removes containers and volumes that bear our label and belong to nothing that lives. A container belongs to a row that holds its
// id; one whose label merely names such a row does not.
func (b *Backend) sweep(ctx context.Context, containers, volumes []labelled, live map[string]string) {
	bound := make(map[string]bool, len(live))
	for _, id := range live {
		bound[id] = true
	}
	for _, c := range containers {
		if bound[c.id] || b.holds(c) {
			continue
		}
		b.metrics.left.WithLabelValues(leftContainer).Inc()
		b.log.Info("removing a container that no row stands for", "container", c.id)
		if err := b.removeContainer(ctx, c.id); err != nil {
			b.log.Error(err, "remove a left container; trying again later", "container", c.id)
		}
	}
	for _, v := range volumes {
		if _, ok := live[v.row]; ok || b.taskOf(v.row) != nil && !b.taskOf(v.row).isCleared() {
			continue
		}
		b.metrics.left.WithLabelValues(leftVolume).Inc()
		if err := b.removeVolume(ctx, v.id); err != nil {
			b.log.Error(err, "remove a left volume; trying again later", "volume", v.id)
		}
	}
}

// holds says whether somebody in this process is still busy with a container: a submission with those that it made, or the end of a
// job with its own.
func (b *Backend) holds(c labelled) bool {
	t := b.taskOf(c.row)
	if t == nil {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.state == Starting || t.container == c.id && !t.cleared
}

// taskOf is the task with this row, or nil.
func (b *Backend) taskOf(row string) *task {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, t := range b.tasks {
		if t.row == row {
			return t
		}
	}
	return nil
}

// running is every task that runs and whose end nobody sees to.
func (b *Backend) running() []*task {
	b.mu.Lock()
	defer b.mu.Unlock()
	var all []*task
	for _, t := range b.tasks {
		if t.view().State == Running && !t.isEnding() {
			all = append(all, t)
		}
	}
	return all
}

// keepRows is how long an ended row is kept, for those who ask what became of it.
const keepRows = 24 * time.Hour

// collect deletes old rows and erases old names.
func (b *Backend) collect(ctx context.Context) {
	for {
		got, err := b.store.Collect(ctx, delegation.Collection{
			Tombstones: b.now().Add(-keepRows), Submitters: b.now().Add(-b.s.Retention), Limit: delegation.MaxPage,
		})
		if err != nil {
			b.log.Error(err, "delete old records")
			return
		}
		if got.None() {
			return
		}
	}
}
