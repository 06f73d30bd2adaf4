package reconcile

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/delegation"
	"github.com/lanyard-k8s/lanyard/exchange/provenance"
)

// soon is when something that cannot be decided now is looked at again.
const soon = 2 * time.Second

// lookAtPod brings a pod's row to where the live pod says it should be.
func (r *Reconciler) lookAtPod(ctx context.Context, k key) (again time.Duration, err error) {
	if _, mine := r.book.find(k.UID); !mine && r.waits() {
		return 0, nil
	}
	p, err := r.reads.pod(ctx, k)
	if err != nil {
		return 0, err
	}
	if p == nil {
		return 0, r.end(ctx, k.UID, delegation.PodGone)
	}
	name := r.rowName(p)
	standing, err := r.options.Store.Get(ctx, name)
	switch {
	case errors.Is(err, delegation.ErrNotFound):
		return r.firstSight(ctx, p, name)
	case err != nil:
		return 0, err
	case standing.Row.State == delegation.Revoked:
		r.book.forget(k.UID)
		return 0, nil
	}
	return r.tend(ctx, p, standing.Row)
}

// rowName is the name of a pod's row.
func (r *Reconciler) rowName(p *corev1.Pod) string {
	username := wire.Account{Namespace: p.Namespace, Name: p.Spec.ServiceAccountName}.Username()
	return delegation.PodName(r.options.IssuedAudience, username, string(p.UID))
}

// tend ends, activates or renews the row of a pod that was confirmed before. Nothing is judged again.
func (r *Reconciler) tend(ctx context.Context, p *corev1.Pod, row delegation.Row) (time.Duration, error) {
	uid := string(p.UID)
	if p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
		return 0, r.end(ctx, uid, delegation.PodEnded)
	}
	now, ok := r.clock.server()
	if !ok {
		return soon, nil
	}
	hard := time.Time{}
	if r.options.HardCap > 0 {
		hard = row.CreatedAt.Add(r.options.HardCap)
	}
	end := p.DeletionTimestamp
	switch {
	case end != nil && now.After(end.Time):
		return 0, r.end(ctx, uid, delegation.PodGone)
	case !hard.IsZero() && !now.Before(hard):
		return 0, r.end(ctx, uid, delegation.MaxAge)
	}
	want := row
	if row.State == delegation.Pending && p.Spec.NodeName != "" {
		want.State, want.NodeName = delegation.Active, p.Spec.NodeName
	}
	if row.ExpiresAt.Sub(now) < r.options.MaxAge/2 {
		want.ExpiresAt = r.expiry(now, hard)
	}
	if want != row {
		if err := r.put(ctx, want); err != nil {
			return 0, err
		}
	}
	return next(now, end, hard), nil
}

// expiry is when a row ends unless it is renewed.
func (r *Reconciler) expiry(now, hard time.Time) time.Time {
	e := now.Add(r.options.MaxAge)
	if !hard.IsZero() && hard.Before(e) {
		return hard
	}
	return e
}

// next is when the earlier of two ends has passed; zero is never.
func next(now time.Time, deletion *metav1.Time, hard time.Time) time.Duration {
	wait := time.Duration(0)
	if deletion != nil {
		wait = max(deletion.Sub(now), 0) + time.Second
	}
	if !hard.IsZero() && (wait == 0 || hard.Sub(now) < wait) {
		wait = max(hard.Sub(now), time.Second)
	}
	return wait
}

// put writes a row and tells those who wait for it. A submission that ended meanwhile leaves the row as it is.
func (r *Reconciler) put(ctx context.Context, row delegation.Row) error {
	got, err := r.options.Store.Put(ctx, row)
	if errors.Is(err, delegation.ErrEnded) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("write the row of %s: %w", row.Bound.Value, err)
	}
	r.told(got)
	return nil
}

// told notes a row that was written and wakes its waiters; a pending one answers nobody's question.
func (r *Reconciler) told(row delegation.Row) {
	if row.State == delegation.Revoked {
		r.book.forget(row.Bound.Value)
	} else {
		r.book.note(row)
	}
	if r.options.Waker != nil && row.State != delegation.Pending {
		r.options.Waker.Judged(row.Name)
	}
}

// firstSight judges a pod without a row.
func (r *Reconciler) firstSight(ctx context.Context, p *corev1.Pod, name string) (time.Duration, error) {
	now, ok := r.clock.server()
	if !ok {
		return soon, nil
	}
	known, err := r.known(ctx, p)
	if err != nil {
		return 0, err
	}
	v, err := r.judge(ctx, p.Namespace, func(l provenance.Live, g provenance.Guards) provenance.Verdict {
		return r.rules.Pod(p, l, known, g, metav1.NewTime(now))
	})
	if errors.Is(err, errClock) {
		return soon, nil
	}
	if err != nil {
		return 0, err
	}
	r.options.Metrics.judged(podObject, v)
	row := r.row(p, name, now)
	switch v.Outcome {
	case provenance.Confirmed:
		if known == nil {
			if err := r.submit(ctx, v, now); err != nil {
				return 0, err
			}
		}
		return r.confirm(ctx, p, row, v, now)
	case provenance.Refused:
		return 0, r.refuse(ctx, p, row, v, now)
	case provenance.NotYet:
		return r.later(v), nil
	default:
		return 0, nil
	}
}

// later is when something that cannot be decided yet is looked at again; what waits for the policies is looked at when they are
// in order.
func (r *Reconciler) later(v provenance.Verdict) time.Duration {
	if v.Reason == provenance.GuardsDown && r.waits() {
		return 0
	}
	return soon
}

// known is the submission of a pod's controller, or nil.
func (r *Reconciler) known(ctx context.Context, p *corev1.Pod) (*provenance.Known, error) {
	owner := metav1.GetControllerOfNoCopy(p)
	if owner == nil {
		return nil, nil
	}
	s, err := r.options.Store.Submission(ctx, string(owner.UID))
	if errors.Is(err, delegation.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the submission of %s: %w", owner.UID, err)
	}
	return &provenance.Known{Submitter: s.Submitter, Via: s.ViaUID, Closed: !s.Open()}, nil
}

// row is a pod's row before it is decided what becomes of it.
func (r *Reconciler) row(p *corev1.Pod, name string, now time.Time) delegation.Row {
	hard := time.Time{}
	if r.options.HardCap > 0 {
		hard = now.Add(r.options.HardCap)
	}
	return delegation.Row{
		Name: name, Kind: delegation.Pod, Bound: delegation.Reference{Name: delegation.ReferencePodUID, Value: string(p.UID)},
		Namespace: p.Namespace, ServiceAccount: p.Spec.ServiceAccountName, NodeName: p.Spec.NodeName,
		CreatedAt: now, ExpiresAt: r.expiry(now, hard),
	}
}

// confirm writes the row of a pod whose submission stands. A pod that has no node yet gets its row as well, pending: it keeps what was judged now, whatever
// happens to the policies while it waits.
func (r *Reconciler) confirm(ctx context.Context, p *corev1.Pod, row delegation.Row, v provenance.Verdict, now time.Time) (time.Duration, error) {
	row.SubmissionUID, row.State = v.Submission.UID, delegation.Active
	if row.NodeName == "" {
		row.State = delegation.Pending
	}
	got, err := r.options.Store.Put(ctx, row)
	if errors.Is(err, delegation.ErrEnded) {
		return 0, r.refuse(ctx, p, row, provenance.Verdict{Outcome: provenance.Refused, Reason: provenance.SubmissionClosed}, now)
	}
	if err != nil {
		return 0, fmt.Errorf("write the row of %s: %w", p.UID, err)
	}
	r.told(got)
	return next(now, p.DeletionTimestamp, time.Time{}), nil
}

// refuse writes a row that is revoked from birth, so that its pod is answered "no" and not "not yet", and tells the owner.
func (r *Reconciler) refuse(ctx context.Context, p *corev1.Pod, row delegation.Row, v provenance.Verdict, now time.Time) error {
	row.SubmissionUID, row.State, row.RevokedAt, row.Reason = "", delegation.Revoked, now, reasonOf(v.Reason)
	if row.ServiceAccount == "" {
		r.tell(ctx, podReference(p), v)
		return nil // no token of this pod can be asked about
	}
	got, err := r.options.Store.Put(ctx, row)
	if err != nil {
		return fmt.Errorf("write the row of %s: %w", p.UID, err)
	}
	r.told(got)
	r.tell(ctx, podReference(p), v)
	return nil
}

// reasonOf is what a row says about a refusal.
func reasonOf(why provenance.Reason) delegation.Reason {
	switch why {
	case provenance.PodEnded:
		return delegation.PodEnded
	case provenance.PodGone:
		return delegation.PodGone
	default:
		return delegation.PodRefused
	}
}

func podReference(p *corev1.Pod) provenance.Reference {
	return provenance.Reference{GroupKind: provenance.PodKind(), Namespace: p.Namespace, Name: p.Name, UID: string(p.UID)}
}

// end revokes the row of a pod that has ended, if it has one, and closes its submission if it was bare.
func (r *Reconciler) end(ctx context.Context, uid string, why delegation.Reason) error {
	at := r.options.Now()
	if e, ok := r.book.find(uid); ok {
		if _, err := r.options.Store.Revoke(ctx, delegation.Revocation{Row: e.name, Reason: why, At: at}); err != nil && !errors.Is(err, delegation.ErrNotFound) {
			return fmt.Errorf("end the row of %s: %w", uid, err)
		}
		r.options.Metrics.closed(why)
		r.told(delegation.Row{Name: e.name, State: delegation.Revoked, Bound: delegation.Reference{Value: uid}})
		if e.submission != uid {
			return nil
		}
	}
	last := delegation.WorkFinished
	if why == delegation.PodGone {
		last = delegation.WorkGone
	}
	if _, err := r.options.Store.End(ctx, uid, last, at); err != nil && !errors.Is(err, delegation.ErrNotFound) {
		return fmt.Errorf("end the submission of %s: %w", uid, err)
	}
	return nil
}
