//go:build unix

package reconcile

import (
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/delegation"
	"github.com/lanyard-k8s/lanyard/exchange/reconcile"
	"github.com/lanyard-k8s/lanyard/test/timing"
)

// active is a job of alice's with a pod whose row is active.
func (r *rig) active(ns, name string) (types.UID, *corev1.Pod) {
	r.t.Helper()
	job := makeJob(r.t, r.as(r.t, "alice"), ns, newJob(name))
	pod := r.podOf(job)
	r.bind(pod)
	r.row(pod, delegation.Active)
	return job.UID, pod
}

// closed waits until a submission is closed.
func (r *rig) closed(uid types.UID, why delegation.Reason) {
	r.t.Helper()
	timing.Within(r.t, 30*time.Second, "the submission is closed: "+string(why), func() bool {
		s, err := r.store.Submission(r.t.Context(), string(uid))
		return err == nil && s.State == delegation.Closed && s.Reason == why && s.RevokedAt.IsZero()
	})
}

func TestEnds(t *testing.T) {
	w := theWorld(t)
	r := w.running(t)
	ns := w.namespace(t, true, "alice")
	pods, jobs := w.admin.CoreV1().Pods(ns), w.admin.BatchV1().Jobs(ns)
	ended := func(pod *corev1.Pod, why delegation.Reason) {
		t.Helper()
		if got := r.row(pod, delegation.Revoked); got.Row.Reason != why {
			t.Errorf("the row of %s ended by %s, want %s", pod.Name, got.Row.Reason, why)
		}
		if !r.desk.was(rowName(pod)) {
			t.Error("nobody was told")
		}
	}
	t.Run("a job that finishes", func(t *testing.T) {
		job, pod := r.active(ns, "finishes")
		r.phase(pod, corev1.PodSucceeded)
		ended(pod, delegation.PodEnded)
		r.closed(job, delegation.WorkFinished)
	})
	t.Run("a pod that is killed", func(t *testing.T) {
		_, pod := r.active(ns, "killed")
		must(t, pods.Delete(t.Context(), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}))
		ended(pod, delegation.PodGone)
	})
	t.Run("a pod past its grace period", func(t *testing.T) {
		_, pod := r.active(ns, "graceful")
		begun := time.Now()
		must(t, pods.Delete(t.Context(), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(3))}))
		ended(pod, delegation.PodGone)
		if took := time.Since(begun); took < 2*time.Second {
			t.Errorf("the row ended after %s: the last checkpoint could not be uploaded", took)
		}
		if _, err := pods.Get(t.Context(), pod.Name, metav1.GetOptions{}); err != nil {
			t.Errorf("the object should still be there: %v", err)
		}
	})
	t.Run("a job that is suspended", func(t *testing.T) {
		job, pod := r.active(ns, "suspended")
		_, err := jobs.Patch(t.Context(), "suspended", types.MergePatchType, []byte(`{"spec":{"suspend":true}}`), metav1.PatchOptions{})
		must(t, err)
		must(t, pods.Delete(t.Context(), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}))
		ended(pod, delegation.PodGone)
		if s := r.submitted(job); !s.Open() {
			t.Errorf("a suspended job's submission does not end: %+v", s)
		}
		_, err = jobs.Patch(t.Context(), "suspended", types.MergePatchType, []byte(`{"spec":{"suspend":false}}`), metav1.PatchOptions{})
		must(t, err)
		var again *corev1.Pod
		timing.Within(t, 2*time.Minute, "there is another pod", func() bool {
			list, err := pods.List(t.Context(), metav1.ListOptions{LabelSelector: "job-name=suspended"})
			for i := range list.Items {
				if list.Items[i].UID != pod.UID {
					again = &list.Items[i]
				}
			}
			return err == nil && again != nil
		})
		r.bind(again)
		r.row(again, delegation.Active)
	})
	t.Run("a job that is deleted", func(t *testing.T) {
		job, pod := r.active(ns, "deleted")
		must(t, jobs.Delete(t.Context(), "deleted", metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationOrphan)}))
		r.closed(job, delegation.WorkGone)
		r.row(pod, delegation.Active) // its rows end with its pods
		must(t, pods.Delete(t.Context(), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}))
		ended(pod, delegation.PodGone)
	})
	t.Run("a bare pod", func(t *testing.T) {
		pod := makePod(t, r.as(t, "alice"), newPod("bare"), ns)
		r.bind(pod)
		r.row(pod, delegation.Active)
		r.phase(pod, corev1.PodFailed)
		ended(pod, delegation.PodEnded)
		r.closed(pod.UID, delegation.WorkFinished)
	})
	t.Run("an admin's revocation stays", func(t *testing.T) {
		job, pod := r.active(ns, "revoked")
		_, err := r.store.Revoke(t.Context(), delegation.Revocation{Submission: string(job), Reason: delegation.SubmissionRevoked, At: time.Now()})
		must(t, err)
		// After a suspension the Job controller makes another pod at once; after a loss it would wait for ten seconds.
		_, err = jobs.Patch(t.Context(), "revoked", types.MergePatchType, []byte(`{"spec":{"suspend":true}}`), metav1.PatchOptions{})
		must(t, err)
		must(t, pods.Delete(t.Context(), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}))
		_, err = jobs.Patch(t.Context(), "revoked", types.MergePatchType, []byte(`{"spec":{"suspend":false}}`), metav1.PatchOptions{})
		must(t, err)
		var again *corev1.Pod
		timing.Within(t, 2*time.Minute, "there is another pod", func() bool {
			list, err := pods.List(t.Context(), metav1.ListOptions{LabelSelector: "job-name=revoked"})
			for i := range list.Items {
				if list.Items[i].UID != pod.UID {
					again = &list.Items[i]
				}
			}
			return err == nil && again != nil
		})
		r.bind(again)
		ended(again, delegation.PodRefused)
		r.warned(ns, again.UID, "submission_closed")
	})
}

// TestGoneWhileNobodyLooked deletes a pod, its job and a bare pod while the reconciler is down.
func TestGoneWhileNobodyLooked(t *testing.T) {
	w := theWorld(t)
	r := w.running(t)
	ns := w.namespace(t, true, "alice")
	job, pod := r.active(ns, "gone")
	bare := makePod(t, r.as(t, "alice"), newPod("bare"), ns)
	r.bind(bare)
	r.row(bare, delegation.Active)
	r.stop()
	must(t, w.admin.BatchV1().Jobs(ns).Delete(t.Context(), "gone", metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)}))
	for _, p := range []*corev1.Pod{pod, bare} {
		timing.Within(t, 2*time.Minute, "the pod is gone", func() bool {
			_ = w.admin.CoreV1().Pods(ns).Delete(t.Context(), p.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))})
			_, err := w.admin.CoreV1().Pods(ns).Get(t.Context(), p.Name, metav1.GetOptions{})
			return err != nil
		})
	}
	r = w.begin(t)
	for _, p := range []*corev1.Pod{pod, bare} {
		if got := r.row(p, delegation.Revoked); got.Row.Reason != delegation.PodGone {
			t.Errorf("got %+v", got.Row)
		}
	}
	r.closed(job, delegation.WorkGone)
	r.closed(bare.UID, delegation.WorkGone)
}

// TestMaxAge renews rows at half of their life, and ends them at the hard cap.
func TestMaxAge(t *testing.T) {
	w := theWorld(t)
	const age = 10 * time.Second
	r := w.running(t, func(o *reconcile.Options) { o.MaxAge, o.Every = age, 500*time.Millisecond })
	ns := w.namespace(t, true, "alice")
	_, pod := r.active(ns, "long")
	first := r.row(pod, delegation.Active).Row.ExpiresAt
	timing.Within(t, 3*age, "the row outlives its first life", func() bool {
		row := r.row(pod, delegation.Active).Row
		if row.Expired(time.Now()) {
			t.Fatalf("the row has expired")
		}
		return row.ExpiresAt.After(first.Add(age))
	})
	r.stop()
	r = w.begin(t, func(o *reconcile.Options) { o.MaxAge, o.HardCap, o.Every = age, 2*age, 500*time.Millisecond })
	if got := r.row(pod, delegation.Revoked); got.Row.Reason != delegation.MaxAge {
		t.Errorf("got %+v", got.Row)
	}
}

// TestClocksThatDiffer confirms and sweeps nothing until they agree.
func TestClocksThatDiffer(t *testing.T) {
	w := theWorld(t)
	w.running(t).stop()
	var off atomic.Int64
	off.Store(int64(40 * time.Second))
	r := w.begin(t, func(o *reconcile.Options) {
		o.Now = func() time.Time { return time.Now().Add(time.Duration(off.Load())) }
	})
	ns := w.namespace(t, true, "alice")
	job := makeJob(t, w.as(t, "alice"), ns, newJob("waits"))
	pod := r.podOf(job)
	r.bind(pod)
	began := time.Now()
	timing.Within(t, 2*time.Minute, "some time passes", func() bool { r.unknown(job.UID); return time.Since(began) > 3*time.Second })
	off.Store(0)
	r.submitted(job.UID)
	r.row(pod, delegation.Active)
}

// TestTheCertificate is kept in managed and in publisher-enabled namespaces and in those that are named, which bear no label, our own
// among them, where nothing is ever managed; the lack of a right is told.
func TestTheCertificate(t *testing.T) {
	w := theWorld(t)
	ns, denied := w.namespace(t, true), w.namespace(t, true)
	publishers, listed := w.namespace(t, false), w.namespace(t, false)
	_, err := w.admin.CoreV1().Namespaces().Patch(t.Context(), publishers, types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"`+wire.LabelPublishers+`":"`+wire.PublishersEnabled+`"}}}`), metav1.PatchOptions{})
	must(t, err)
	for _, space := range []string{ns, publishers, listed, release} {
		role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "lanyard-ca"}, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "update"}, ResourceNames: []string{"lanyard-ca"}},
			{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"create"}},
		}}
		_, err := w.admin.RbacV1().Roles(space).Create(t.Context(), role, metav1.CreateOptions{})
		must(t, err)
		_, err = w.admin.RbacV1().RoleBindings(space).Create(t.Context(), &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "lanyard-ca"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "lanyard-ca"},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: exchangeUser}},
		}, metav1.CreateOptions{})
		must(t, err)
	}
	var pem atomic.Value
	pem.Store("first")
	r := w.begin(t, func(o *reconcile.Options) {
		o.CA = &reconcile.CA{ConfigMap: "lanyard-ca", Namespaces: []string{"not-there-yet", listed, release}, Publishers: true, Read: func() ([]byte, error) { return []byte(pem.Load().(string)), nil }}
	})
	holds := func(want string) {
		t.Helper()
		for _, space := range []string{ns, publishers, listed, release} {
			timing.Within(t, 2*time.Minute, "the ConfigMap holds the "+want+" certificate", func() bool {
				m, err := w.admin.CoreV1().ConfigMaps(space).Get(t.Context(), "lanyard-ca", metav1.GetOptions{})
				return err == nil && m.Data[wire.CAFile] == want
			})
		}
	}
	holds("first")
	must(t, w.admin.CoreV1().ConfigMaps(ns).Delete(t.Context(), "lanyard-ca", metav1.DeleteOptions{}))
	holds("first")
	pem.Store("second")
	holds("second")
	space, err := w.admin.CoreV1().Namespaces().Get(t.Context(), denied, metav1.GetOptions{})
	must(t, err)
	r.warned(denied, space.UID, "lanyard-ca", "jobs.namespaces")
}
