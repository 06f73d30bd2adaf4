package reconcile

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/lanyard-k8s/lanyard/delegation"
	"github.com/lanyard-k8s/lanyard/exchange/provenance"
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

// unlisted notes that a kind with an open submission is a job kind no more, and since when. What is of no group of Kubernetes' or of a
// definition, which have a dot, is somebody else's (Docker jobs have submissions, too) and left alone.
func (w *watches) unlisted(text string, now time.Time) provenance.GroupKind {
	group, name, _ := strings.Cut(text, "/")
	kind := provenance.GroupKind{Group: group, Kind: name}
	if since, noted := w.missing[kind]; (group == "batch" || strings.Contains(group, ".")) && (!noted || since.After(now)) {
		w.missing[kind] = now
	}
	return kind
}

// orphan is an open submission of a kind that is undefined, or a job kind no more. It is not looked at, for there is nowhere to look;
// after a while, in which the kind may have been on its way back, it ends as what is gone does. It gets no rows meanwhile, and its pods'
// end with them. (Nor does it get any when its kind is listed again: its objects were not guarded meanwhile.)
func (r *Reconciler) orphan(ctx context.Context, s delegation.Submission, since, now time.Time) error {
	if now.Sub(since) < r.options.KindGone {
		return nil
	}
	r.options.Log.Info("a submission ends, for its kind is defined no more, or listed no more", keyKind, s.GroupKind, keyNamespace, s.Namespace, keyName, s.Name)
	return r.endWork(ctx, s.UID, delegation.WorkGone)
}
