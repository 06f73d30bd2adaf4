package reconcile

import (
	"context"
	"errors"
	"time"

	"github.com/lanyard-k8s/lanyard/delegation"
)

// undefined notes which of the job kinds the API server does not define, and since when.
func (r *Reconciler) undefined(w *watches, now time.Time) {
	for _, k := range r.rules.Kinds {
		_, err := r.reads.resource(k.GroupKind)
		since, noted := w.missing[k.GroupKind]
		switch {
		case !errors.Is(err, errUndefined):
			delete(w.missing, k.GroupKind)
		case !noted || since.After(now):
			w.missing[k.GroupKind] = now
		}
	}
}

// orphan is an open submission of a kind that is undefined. It is not looked at, for there is nowhere to look; after a while, in
// which the kind may have been on its way back, it ends as what is gone does. It gets no rows meanwhile, and its pods' end with them.
func (r *Reconciler) orphan(ctx context.Context, s delegation.Submission, since, now time.Time) error {
	if now.Sub(since) < r.options.KindGone {
		return nil
	}
	r.options.Log.Info("a submission ends, for its kind is defined no more", keyKind, s.GroupKind, keyNamespace, s.Namespace, keyName, s.Name)
	return r.endWork(ctx, s.UID, delegation.WorkGone)
}
