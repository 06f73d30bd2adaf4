//go:build unix

package reconcile

import (
	"context"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/delegation"
	"github.com/lanyard-k8s/lanyard/policy"
	"github.com/lanyard-k8s/lanyard/test/timing"
)

// unguarded takes a policy away, waits until that is noticed, does what somebody does meanwhile, puts the policy back, and returns the epoch that
// has begun then.
func (r *rig) unguarded(t *testing.T, name string, meanwhile func()) time.Time {
	t.Helper()
	before, since := r.epoch(t), time.Now()
	restore := func() { put(t, r.world, built(t, settings(), name)) }
	defer restore() // also after a failure
	must(t, r.admin.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Delete(t.Context(), name, metav1.DeleteOptions{}))
	timing.Within(t, time.Minute, "people are told", func() bool { return r.drifts(t, since) })
	meanwhile()
	restore()
	timing.Within(t, time.Minute, "the epoch moves", func() bool { return r.epoch(t).After(before) })
	epoch := r.epoch(t)
	timing.Within(t, time.Minute, "the epoch has begun", func() bool { return time.Now().After(epoch.Add(time.Second)) })
	return epoch
}

// suspended is a job that does not run yet.
func suspended(j *batchv1.Job) { j.Spec.Suspend = new(true) }

// resume lets a suspended job run, binds its pod and returns what becomes of its row.
func (r *rig) resume(client kubernetes.Interface, j *batchv1.Job, want delegation.RowState) delegation.Standing {
	r.t.Helper()
	_, err := client.BatchV1().Jobs(j.Namespace).Patch(r.t.Context(), j.Name, types.MergePatchType, []byte(`{"spec":{"suspend":false}}`), metav1.PatchOptions{})
	must(r.t, err)
	pod := r.podOf(j)
	r.bind(pod)
	got := r.row(pod, want)
	if want == delegation.Revoked {
		r.warned(j.Namespace, pod.UID, "changed_unguarded")
	}
	return got
}

// TestAnotherNameIsWrittenOnWorkThatIsNotGuarded: mallory writes her own name on alice's suspended Job while the policy that keeps stamps true
// is away. Ever after the policies take the Job for hers, and let her change its template; its pods act for nobody.
func TestAnotherNameIsWrittenOnWorkThatIsNotGuarded(t *testing.T) {
	w := theWorld(t)
	r := w.running(t)
	ns := w.namespace(t, true, "alice", "mallory")
	alice, mallory := w.as(t, "alice"), w.as(t, "mallory")
	victim, untouched := makeJob(t, alice, ns, newJob("victim", suspended)), makeJob(t, alice, ns, newJob("untouched", suspended))
	r.submitted(victim.UID)
	r.submitted(untouched.UID)
	t.Cleanup(func() { must(t, w.in.ApplyWebhooks(context.Background())) })
	epoch := r.unguarded(t, policy.CreatorStamp, func() {
		must(t, w.in.RemoveWebhooks(t.Context())) // it would write the true name
		timing.Within(t, time.Minute, "mallory writes her name", func() bool {
			got, err := mallory.BatchV1().Jobs(ns).Patch(t.Context(), victim.Name, types.MergePatchType,
				[]byte(`{"metadata":{"annotations":{"`+wire.AnnotationCreatedBy+`":"mallory"}}}`), metav1.PatchOptions{})
			return err == nil && got.Annotations[wire.AnnotationCreatedBy] == "mallory"
		})
		must(t, w.in.ApplyWebhooks(t.Context()))
	})
	r.seen(untouched, 1, epoch)
	looked := time.Now()
	timing.Within(t, time.Minute, "the other Job was looked at, too", func() bool { return time.Since(looked) > 2*time.Second })
	must(t, retemplate(t, mallory, victim, "mallory"))
	if got := r.resume(mallory, victim, delegation.Revoked); got.Row.Reason != delegation.PodRefused || got.Row.SubmissionUID != "" {
		t.Errorf("its pod's row is %+v", got.Row)
	}
}

// TestWorkIsKnownAnew has a policy be away while nobody does anything: two suspended Jobs are known to be unchanged, without anybody touching
// them. So alice may change her own afterwards. The other is of her JobSet, which may have been changed: what its controller does to it from
// then on may be somebody else's wish. As long as that does nothing, it goes on.
func TestWorkIsKnownAnew(t *testing.T) {
	w := theWorld(t)
	w.define(t, jobset, "JobSet")
	r := w.running(t)
	ns := w.namespace(t, true, "alice", setController)
	alice, controller := w.as(t, "alice"), w.as(t, setController)
	own := makeJob(t, alice, ns, newJob("own", suspended))
	set := w.custom(t, "alice", ns, jobset, "JobSet", "set")
	child := func(name string, change ...func(*batchv1.Job)) *batchv1.Job {
		j := newJob(name, change...)
		j.OwnerReferences = owner(set)
		j = makeJob(t, controller, ns, j)
		if s := r.submitted(j.UID); s.Submitter != "alice" || s.ViaUID != string(set.GetUID()) {
			t.Errorf("the JobSet's job: %+v", s)
		}
		return j
	}
	changed, left := child("set-changed", suspended), child("set-left", func(j *batchv1.Job) { j.Spec.Parallelism = new(int32(1)) })
	r.bind(r.podOf(left))
	r.submitted(own.UID)
	quiet := time.Now() // so that nothing waits for the policies: what does is looked at in any case
	timing.Within(t, time.Minute, "nothing has happened for some rounds", func() bool { return time.Since(quiet) > 7*time.Second })
	epoch := r.unguarded(t, policy.JobTemplates, func() {})
	r.seen(own, 1, epoch)
	must(t, retemplate(t, alice, own, "alice"))
	if got := r.resume(alice, own, delegation.Active); got.Submission.Submitter != "alice" {
		t.Errorf("a job that was changed afterwards: %+v", got)
	}
	must(t, retemplate(t, controller, changed, "whoever has changed the JobSet"))
	r.resume(controller, changed, delegation.Revoked)
	first := r.podOf(left)
	must(t, r.admin.CoreV1().Pods(ns).Delete(t.Context(), first.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}))
	timing.Within(t, time.Minute, "another pod takes its place", func() bool {
		list, err := r.admin.CoreV1().Pods(ns).List(t.Context(), metav1.ListOptions{LabelSelector: "controller-uid=" + string(left.UID)})
		return err == nil && len(list.Items) == 1 && list.Items[0].UID != first.UID
	})
	second := r.podOf(left)
	r.bind(second)
	if got := r.row(second, delegation.Active); got.Submission.Submitter != "alice" {
		t.Errorf("a job that nobody has changed: %+v", got)
	}
}
