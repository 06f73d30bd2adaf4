package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lanyard-k8s/lanyard/delegation"
	"github.com/lanyard-k8s/lanyard/exchange/provenance"
)

// lookAtWork brings the submission of an object of a job kind to where the live object says it should be.
func (r *Reconciler) lookAtWork(ctx context.Context, k key) (again time.Duration, err error) {
	at, ok := r.clock.server() // before the read
	o, err := r.reads.object(ctx, k)
	if err != nil {
		return 0, err
	}
	s, err := r.options.Store.Submission(ctx, k.UID)
	switch {
	case errors.Is(err, delegation.ErrNotFound):
		if o == nil || o.Finished || o.Deleting || r.waits() {
			return 0, nil
		}
		return r.firstWork(ctx, *o)
	case err != nil:
		return 0, fmt.Errorf("read the submission of %s: %w", k.UID, err)
	case !s.Open():
		return 0, nil
	case o == nil || o.Deleting:
		return 0, r.endWork(ctx, k.UID, delegation.WorkGone)
	case o.Finished:
		return 0, r.endWork(ctx, k.UID, delegation.WorkFinished)
	case !ok:
		return r.options.Every, nil
	}
	return r.observe(ctx, s, *o, at)
}

// observe notes how the object of an open submission was read, not before a time. What it had become by then, it became under the policies,
// if they are found in order afterwards; and not under those of before, if the epoch had begun by then.
func (r *Reconciler) observe(ctx context.Context, s delegation.Submission, o provenance.Object, at time.Time) (time.Duration, error) {
	if last := r.guard.last.Load(); last != nil && last.state == InOrder {
		if _, wait, counts := r.observation(s, o, at, *last); !counts || wait > 0 {
			return wait, nil
		}
	}
	now, err := r.guard.fresh(ctx)
	if errors.Is(err, errClock) {
		return soon, nil
	}
	if err != nil {
		return 0, err
	}
	if now.state != InOrder {
		return r.later(provenance.Verdict{Reason: provenance.GuardsDown}), nil
	}
	seen, wait, counts := r.observation(s, o, at, now)
	if !counts || wait > 0 {
		return wait, nil
	}
	if _, err := r.options.Store.Observe(ctx, s.UID, seen); err != nil && !errors.Is(err, delegation.ErrNotFound) {
		return 0, fmt.Errorf("observe the submission of %s: %w", s.UID, err)
	}
	return 0, nil
}

// observation is how an object was seen by a read not before a time, where the policies are in order. It counts if it is new and no change
// past the policies is in it; if the read was too early to tell, it is to be repeated after a while.
func (r *Reconciler) observation(s delegation.Submission, o provenance.Object, at time.Time, now standing) (seen delegation.Observation, wait time.Duration, counts bool) {
	g := now.guards(o.Namespace)
	seen = g.Observed(o)
	before := s.Seen()
	switch {
	case !g.Managed: // everything is looked at when it is
		return seen, 0, false
	case seen.Equal(s.Observed):
		return seen, 0, false
	case !before.Explains(seen), !r.rules.Untouched(o, knownOf(s)): // generations and epochs only grow
		return seen, 0, false
	case s.ViaUID != "" && seen.Since.After(before.Since):
		// Its parent may have been changed, too, and whoever made it for its parent carries that over. So it never counts anew.
		return seen, 0, false
	}
	from := seen.Since
	if g.Since.Time.Equal(from) {
		from = from.Add(r.options.EpochMargin) // the time of a label has no margin of its own
	}
	if at.Before(from) {
		wait = from.Sub(at) + time.Second
	}
	return seen, wait, true
}

// endWork closes a submission. Its rows end with their pods.
func (r *Reconciler) endWork(ctx context.Context, uid string, why delegation.Reason) error {
	if _, err := r.options.Store.End(ctx, uid, why, r.options.Now()); err != nil {
		return fmt.Errorf("end the submission of %s: %w", uid, err)
	}
	r.options.Metrics.closed(why)
	return nil
}

// firstWork judges an object without a submission.
func (r *Reconciler) firstWork(ctx context.Context, o provenance.Object) (time.Duration, error) {
	now, ok := r.clock.server()
	if !ok {
		return soon, nil
	}
	v, err := r.judge(ctx, o.Namespace, func(l provenance.Live, g provenance.Guards) provenance.Verdict {
		return r.rules.Work(o, l, g)
	})
	if errors.Is(err, errClock) {
		return soon, nil
	}
	if err != nil {
		return 0, err
	}
	r.options.Metrics.judged(workObject, v)
	switch v.Outcome {
	case provenance.Confirmed:
		return 0, r.submit(ctx, v, now)
	case provenance.Refused:
		r.tell(ctx, o.Reference, v)
		return 0, nil
	case provenance.NotYet:
		return r.later(v), nil
	default:
		return 0, nil
	}
}

// submit confirms a submission, again if it stands already.
func (r *Reconciler) submit(ctx context.Context, v provenance.Verdict, now time.Time) error {
	_, err := r.options.Store.Confirm(ctx, delegation.Submission{
		UID: v.Submission.UID, GroupKind: v.Submission.GroupKind.String(), Cluster: r.options.Cluster,
		Namespace: v.Submission.Namespace, Name: v.Submission.Name, Submitter: v.Submitter, ViaUID: v.Via,
		Audiences: slices.Clone(r.options.Audiences), Scopes: slices.Clone(r.options.Scopes),
		State: delegation.Confirmed, ConfirmedAt: now, Observed: v.Observed,
	})
	if err != nil {
		return fmt.Errorf("confirm the submission of %s: %w", v.Submission.UID, err)
	}
	return nil
}
