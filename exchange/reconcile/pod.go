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
	known := knownOf(s)
	return &known, nil
}

// knownOf is what a submission says to a judge.
func knownOf(s delegation.Submission) provenance.Known {
	return provenance.Known{Submitter: s.Submitter, Via: s.ViaUID, Closed: !s.Open(), Seen: s.Seen()}
}
