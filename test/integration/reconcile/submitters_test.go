//go:build unix

package reconcile

import (
	"os/exec"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/delegation"
	"github.com/lanyard-k8s/lanyard/test/timing"
)

// TestAUsersJob is the main road: a Job of alice's, its pod by the real Job controller, the row active once the pod has a node.
func TestAUsersJob(t *testing.T) {
	w := theWorld(t)
	r := w.running(t)
	ns := w.namespace(t, true, "alice")
	job := makeJob(t, w.as(t, "alice"), ns, newJob("train"))
	s := r.submitted(job.UID)
	if s.Submitter != "alice" || s.GroupKind != "batch/Job" || s.Namespace != ns || s.Name != "train" || s.Cluster != "test" || s.ViaUID != "" {
		t.Errorf("the submission is %+v", s)
	}
	pod := r.podOf(job)
	r.row(pod, delegation.Pending)
	if r.desk.was(rowName(pod)) {
		t.Error("a pending row answers nobody")
	}
	r.bind(pod)
	got := r.row(pod, delegation.Active)
	if got.Submission.Submitter != "alice" || got.Row.NodeName != node || got.Row.Bound.Value != string(pod.UID) || got.Row.ServiceAccount != "default" {
		t.Errorf("the row is %+v", got)
	}
	if !r.desk.was(rowName(pod)) {
		t.Error("nobody was woken")
	}
}

// TestBarePods are their creators', and a stamp by hand is as good.
func TestBarePods(t *testing.T) {
	w := theWorld(t)
	r := w.running(t)
	ns := w.namespace(t, true, "alice", "mallory")
	pod := makePod(t, w.as(t, "alice"), newPod("bare"), ns)
	r.bind(pod)
	if got := r.row(pod, delegation.Active); got.Submission.Submitter != "alice" || got.Submission.GroupKind != "Pod" || got.Submission.UID != string(pod.UID) {
		t.Errorf("got %+v", got)
	}
	job := makeJob(t, w.as(t, "alice"), ns, newJob("victim"))
	yes := true
	forged := newPod("forged")
	forged.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: job.Name, UID: job.UID, Controller: &yes}}
	_, err := w.as(t, "mallory").CoreV1().Pods(ns).Create(t.Context(), forged, metav1.CreateOptions{})
	forbidden(t, "a forged owner reference", err)
	forged = newPod("labelled")
	forged.Labels = map[string]string{"batch.kubernetes.io/controller-uid": string(job.UID), "job-name": "victim"}
	_, err = w.as(t, "mallory").CoreV1().Pods(ns).Create(t.Context(), forged, metav1.CreateOptions{})
	forbidden(t, "forged labels", err)
	forged = newPod("stamped")
	forged.Annotations = map[string]string{wire.AnnotationCreatedBy: "alice"}
	own := makePod(t, w.as(t, "mallory"), forged, ns)
	r.bind(own)
	if got := r.row(own, delegation.Active); got.Submission.Submitter != "mallory" {
		t.Errorf("mallory became %q", got.Submission.Submitter)
	}
}

func forbidden(t *testing.T, what string, err error) {
	t.Helper()
	if !apierrors.IsForbidden(err) {
		t.Errorf("%s: %v", what, err)
	}
}

// cron makes a CronJob that never runs by itself.
func (r *rig) cron(user, ns, name string) *batchv1.CronJob {
	r.t.Helper()
	c := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: batchv1.CronJobSpec{
		Schedule: "0 0 1 1 *", JobTemplate: batchv1.JobTemplateSpec{Spec: newJob(name).Spec},
	}}
	c, err := r.as(r.t, user).BatchV1().CronJobs(ns).Create(r.t.Context(), c, metav1.CreateOptions{})
	must(r.t, err)
	return c
}

// fromCron is a job as the CronJob controller makes one.
func fromCron(c *batchv1.CronJob, name string) *batchv1.Job {
	job := newJob(name)
	yes := true
	job.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "CronJob", Name: c.Name, UID: c.UID, Controller: &yes}}
	return job
}

// TestCronJobs has the CronJob controller's identity make jobs, and people make them from the CronJob.
func TestCronJobs(t *testing.T) {
	w := theWorld(t)
	r := w.running(t)
	ns := w.namespace(t, true, "alice", "bob")
	cron := r.cron("alice", ns, "nightly")
	nightly := makeJob(t, w.as(t, cronController), ns, fromCron(cron, "nightly-1"))
	if s := r.submitted(nightly.UID); s.Submitter != "alice" || s.ViaUID != string(cron.UID) {
		t.Errorf("the CronJob's job: %+v", s)
	}
	pod := r.podOf(nightly)
	r.bind(pod)
	if got := r.row(pod, delegation.Active); got.Submission.Submitter != "alice" {
		t.Errorf("its pod: %+v", got)
	}

	kubeconfig, err := w.cp.Kubeconfig("bob")
	must(t, err)
	out, err := exec.CommandContext(t.Context(), w.cp.Kubectl(), "--kubeconfig="+kubeconfig, "-n", ns, "create", "job", "manual", "--from=cronjob/nightly").CombinedOutput()
	if err != nil {
		t.Fatalf("kubectl create job --from: %v: %s", err, out)
	}
	manual, err := w.admin.BatchV1().Jobs(ns).Get(t.Context(), "manual", metav1.GetOptions{})
	must(t, err)
	if s := r.submitted(manual.UID); s.Submitter != "bob" || s.ViaUID != "" || len(manual.OwnerReferences) != 1 {
		t.Errorf("kubectl create job --from by bob: %+v, owned by %v", s, manual.OwnerReferences)
	}

	must(t, w.admin.BatchV1().CronJobs(ns).Delete(t.Context(), "nightly", metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationOrphan)}))
	if got := r.row(pod, delegation.Active); got.Submission.Submitter != "alice" {
		t.Errorf("a parent that goes touches running work: %+v", got)
	}
	timing.Within(t, 2*time.Minute, "the CronJob is gone", func() bool {
		_, err := w.admin.BatchV1().CronJobs(ns).Get(t.Context(), "nightly", metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
	orphan := makeJob(t, w.as(t, cronController), ns, fromCron(cron, "late"))
	after := makeJob(t, w.as(t, "alice"), ns, newJob("after"))
	r.submitted(after.UID)
	r.unknown(orphan.UID)
}

// TestReownedJob has mallory say that her job is alice's CronJob's, from birth and later.
func TestReownedJob(t *testing.T) {
	w := theWorld(t)
	r := w.running(t)
	ns := w.namespace(t, true, "alice", "mallory")
	cron := r.cron("alice", ns, "nightly")
	job := makeJob(t, w.as(t, "mallory"), ns, fromCron(cron, "mine"))
	if s := r.submitted(job.UID); s.Submitter != "mallory" {
		t.Errorf("mallory became %q", s.Submitter)
	}
	plain := makeJob(t, w.as(t, "mallory"), ns, newJob("plain"))
	patch := []byte(`{"metadata":{"ownerReferences":[{"apiVersion":"batch/v1","kind":"CronJob","name":"nightly","uid":"` + string(cron.UID) + `","controller":true}]}}`)
	_, err := w.as(t, "mallory").BatchV1().Jobs(ns).Patch(t.Context(), "plain", types.MergePatchType, patch, metav1.PatchOptions{})
	forbidden(t, "a job that is re-owned", err)
	if s := r.submitted(plain.UID); s.Submitter != "mallory" {
		t.Errorf("mallory became %q", s.Submitter)
	}
}

// TestServiceAccounts submit only when they are listed; those that need no identity opt out.
func TestServiceAccounts(t *testing.T) {
	w := theWorld(t)
	r := w.running(t)
	const ci = "system:serviceaccount:ci:runner"
	ns := w.namespace(t, true, submitter, ci)
	job := makeJob(t, w.as(t, submitter), ns, newJob("listed"))
	if s := r.submitted(job.UID); s.Submitter != submitter {
		t.Errorf("got %+v", s)
	}
	_, err := w.as(t, ci).BatchV1().Jobs(ns).Create(t.Context(), newJob("unlisted"), metav1.CreateOptions{})
	forbidden(t, "an account that is not listed", err)
	quiet := makeJob(t, w.as(t, ci), ns, newJob("helper", func(j *batchv1.Job) {
		j.Spec.Template.Labels = map[string]string{wire.LabelRole: wire.RoleNone}
	}))
	pod := r.podOf(quiet)
	if _, injected := pod.Labels[wire.LabelInjected]; injected {
		t.Error("a helper was given a token")
	}
	after := makeJob(t, w.as(t, submitter), ns, newJob("after"))
	r.submitted(after.UID)
	r.unknown(quiet.UID)
	events, err := w.admin.CoreV1().Events(ns).List(t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.uid=" + string(quiet.UID) + ",type=" + corev1.EventTypeWarning})
	must(t, err)
	if len(events.Items) > 0 {
		t.Errorf("the helper's owner was warned: %s", events.Items[0].Message)
	}
}
