package reconcile

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/lanyard-k8s/lanyard/delegation"
	"github.com/lanyard-k8s/lanyard/exchange/provenance"
)

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
