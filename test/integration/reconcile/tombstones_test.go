//go:build unix

package reconcile

import (
	"testing"
	"time"

	"github.com/lanyard-k8s/lanyard/delegation"
	"github.com/lanyard-k8s/lanyard/exchange/reconcile"
	"github.com/lanyard-k8s/lanyard/test/timing"
)

// TestAPodOutlivesItsTombstone: the row of a pod that runs on after it was revoked or refused has its time, and the pod is judged again,
// whether its submission is closed or it never had one. Without a row its answer would be "not yet" for ever.
func TestAPodOutlivesItsTombstone(t *testing.T) {
	w := theWorld(t)
	r := w.running(t, func(o *reconcile.Options) { o.Tombstones = 3 * time.Second })
	ns := w.namespace(t, true, "alice")
	job, pod := r.active(ns, "outlives")
	_, err := r.store.Revoke(t.Context(), delegation.Revocation{Submission: string(job), Reason: delegation.SubmissionRevoked, At: time.Now()})
	must(t, err)
	last := r.row(pod, delegation.Revoked).Row
	for _, what := range []string{"the row of a revoked submission", "the row of a refused pod"} {
		timing.Within(t, 2*time.Minute, what+" is followed by another", func() bool {
			s, err := r.store.Get(t.Context(), rowName(pod))
			if err != nil || !s.Row.CreatedAt.After(last.CreatedAt) {
				return false
			}
			if s.Row.State != delegation.Revoked || s.Row.Reason != delegation.PodRefused || s.Row.SubmissionUID != "" {
				t.Fatalf("after %s the pod has the row %+v, want it refused", what, s.Row)
			}
			last = s.Row
			return true
		})
	}
	r.warned(ns, pod.UID, "submission_closed")
}
