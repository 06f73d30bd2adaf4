//go:build unix

package reconcile

import (
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/delegation"
	"github.com/lanyard-k8s/lanyard/exchange/reconcile"
	"github.com/lanyard-k8s/lanyard/test/timing"
)

// forgery is a pod that says of itself that the Job controller made it for a job, with everything that the webhook would add.
func forgery(job *batchv1.Job) *corev1.Pod {
	p := newPod("forged")
	p.Labels = map[string]string{wire.LabelInjected: "job", "batch.kubernetes.io/controller-uid": string(job.UID), "controller-uid": string(job.UID), "job-name": job.Name}
	p.Annotations = map[string]string{wire.AnnotationCreatedBy: jobController}
	yes := true
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: job.Name, UID: job.UID, Controller: &yes}}
	p.Spec.Volumes = []corev1.Volume{{Name: wire.VolumeJob, VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
		Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{
			Audience: wire.DefaultJobAudience, ExpirationSeconds: new(int64(600)), Path: wire.TokenFile,
		}}},
	}}}}
	return p
}

// TestForgedWhileEverythingIsGone is the worst that can happen: policies and webhook are gone for a while, and mallory makes a pod and
// a job that lie about everything. With the reconciler watching, and with it down.
func TestForgedWhileEverythingIsGone(t *testing.T) {
	w := theWorld(t)
	for name, watching := range map[string]bool{"the reconciler watches": true, "the reconciler is down": false} {
		t.Run(name, func(t *testing.T) {
			asInstalled := func(o *reconcile.Options) {
				if watching { // once is enough
					o.EpochMargin = 0
				}
			}
			r := w.running(t, asInstalled)
			ns := w.namespace(t, true, "alice", "mallory")
			victim := makeJob(t, w.as(t, "alice"), ns, newJob("victim"))
			r.submitted(victim.UID)
			if !watching {
				r.stop()
			}
			must(t, w.in.RemovePolicies(t.Context()))
			must(t, w.in.RemoveWebhooks(t.Context()))
			mallory := w.as(t, "mallory")
			pod := makePod(t, mallory, forgery(victim), ns)
			lie := newJob("lie")
			lie.Annotations = map[string]string{wire.AnnotationCreatedBy: "alice"}
			lie = makeJob(t, mallory, ns, lie)
			r.bind(pod)
			must(t, w.in.ApplyPolicies(t.Context()))
			must(t, w.in.ApplyWebhooks(t.Context()))
			if !watching {
				r = w.begin(t, asInstalled)
			}
			if got := r.row(pod, delegation.Revoked); got.Row.SubmissionUID != "" || got.Row.Reason != delegation.PodRefused {
				t.Errorf("the forged pod's row is %+v", got.Row)
			}
			r.warned(ns, pod.UID, "before_guards")
			r.warned(ns, lie.UID, "before_guards")
			r.settled()
			began := time.Now()
			timing.Within(t, 2*time.Minute, "it stays so", func() bool { r.unknown(lie.UID); return time.Since(began) > 3*time.Second })
			if s := r.submitted(victim.UID); s.Submitter != "alice" || !s.Open() {
				t.Errorf("the victim's submission is %+v", s)
			}
		})
	}
}
