//go:build unix

package reconcile

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/delegation"
	"github.com/lanyard-k8s/lanyard/exchange/reconcile"
	"github.com/lanyard-k8s/lanyard/policy"
	"github.com/lanyard-k8s/lanyard/test/timing"
)

// The kinds of other people's controllers, for which the tests stand in.
var (
	pytorch = schema.GroupVersionResource{Group: "kubeflow.org", Version: "v1", Resource: "pytorchjobs"}
	jobset  = schema.GroupVersionResource{Group: "jobset.x-k8s.io", Version: "v1alpha2", Resource: "jobsets"}
)

func (w *world) dynamic(t *testing.T, user string, groups ...string) dynamic.Interface {
	t.Helper()
	client, err := dynamic.NewForConfig(w.config(t, user, groups...))
	must(t, err)
	return client
}

// define makes a kind known, lets editors use it, and returns what takes it away again with all of its objects.
func (w *world) define(t *testing.T, resource schema.GroupVersionResource, kind string) (remove func()) {
	t.Helper()
	name := resource.Resource + "." + resource.Group
	definition := fmt.Sprintf(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: %s
  annotations: {api-approved.kubernetes.io: unapproved for a test}
spec:
  group: %s
  scope: Namespaced
  names: {kind: %s, plural: %s, singular: %s, listKind: %sList}
  versions:
    - name: %s
      served: true
      storage: true
      subresources: {status: {}}
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`, name, resource.Group, kind, resource.Resource, strings.ToLower(kind), kind, resource.Version)
	u := &unstructured.Unstructured{}
	must(t, yaml.Unmarshal([]byte(definition), &u.Object))
	definitions := w.dynamic(t, "admin", "system:masters").Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	_, err := definitions.Create(t.Context(), u, metav1.CreateOptions{})
	must(t, err)
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "edit-" + resource.Resource, Labels: map[string]string{"rbac.authorization.k8s.io/aggregate-to-edit": "true"}},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{resource.Group}, Resources: []string{"*"}, Verbs: []string{"*"}}},
	}
	_, err = w.admin.RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{})
	must(t, err)
	remove = func() {
		if err := definitions.Delete(context.Background(), name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			t.Error(err)
		}
		timing.Within(t, time.Minute, name+" is gone", func() bool {
			_, err := definitions.Get(context.Background(), name, metav1.GetOptions{})
			return apierrors.IsNotFound(err)
		})
	}
	t.Cleanup(func() {
		remove()
		must(t, w.admin.RbacV1().ClusterRoles().Delete(context.Background(), role.Name, metav1.DeleteOptions{}))
	})
	return remove
}

// custom makes an object of a kind as a user, once the kind is served and the user may.
func (w *world) custom(t *testing.T, user, ns string, resource schema.GroupVersionResource, kind, name string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": resource.GroupVersion().String(), "kind": kind, "metadata": map[string]any{"name": name},
		"spec": map[string]any{"replicas": map[string]any{"template": map[string]any{"spec": map[string]any{
			"containers": []any{map[string]any{"name": "main", "image": "registry.example/main:1"}},
		}}}},
	}}
	var made *unstructured.Unstructured
	timing.Within(t, 30*time.Second, user+" makes a "+kind, func() bool {
		var err error
		made, err = w.dynamic(t, user).Resource(resource).Namespace(ns).Create(t.Context(), o, metav1.CreateOptions{})
		return err == nil
	})
	return made
}

// owner is a reference to the object that controls.
func owner(o *unstructured.Unstructured) []metav1.OwnerReference {
	return []metav1.OwnerReference{{APIVersion: o.GetAPIVersion(), Kind: o.GetKind(), Name: o.GetName(), UID: o.GetUID(), Controller: new(true)}}
}

// worker is a pod as the training operator makes one.
func worker(job *unstructured.Unstructured, name string) *corev1.Pod {
	p := newPod(name)
	p.OwnerReferences = owner(job)
	p.Labels = map[string]string{"training.kubeflow.org/job-name": job.GetName()}
	return p
}

// TestACustomKind has a PyTorchJob of alice's, whose pods the operator makes: they act for alice. Nobody else makes such a pod.
func TestACustomKind(t *testing.T) {
	w := theWorld(t)
	r := w.running(t) // before the kind is defined
	w.define(t, pytorch, "PyTorchJob")
	ns := w.namespace(t, true, "alice", "mallory", trainingOwner)
	job := w.custom(t, "alice", ns, pytorch, "PyTorchJob", "train")
	if s := r.submitted(job.GetUID()); s.Submitter != "alice" || s.GroupKind != "kubeflow.org/PyTorchJob" || s.ViaUID != "" {
		t.Errorf("the submission is %+v", s)
	}
	pod := makePod(t, w.as(t, trainingOwner), worker(job, "worker-0"), ns)
	r.row(pod, delegation.Pending)
	r.bind(pod)
	if got := r.row(pod, delegation.Active); got.Submission.Submitter != "alice" || got.Row.SubmissionUID != string(job.GetUID()) {
		t.Errorf("the worker's row is %+v", got)
	}

	const notByController = "ValidatingAdmissionPolicy 'lanyard-job-pods' with binding 'lanyard-job-pods' denied request"
	forged := map[string]*corev1.Pod{"owned by it": worker(job, "forged-0"), "with its label alone": worker(job, "forged-1"), "owned by it, without the label": worker(job, "forged-2")}
	forged["with its label alone"].OwnerReferences = nil
	forged["owned by it, without the label"].Labels = nil
	for name, p := range forged {
		for _, user := range []string{"mallory", "alice"} { // not even by hand by its own submitter
			_, err := w.as(t, user).CoreV1().Pods(ns).Create(t.Context(), p, metav1.CreateOptions{})
			if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), notByController) {
				t.Errorf("a pod %s, by %s: %v", name, user, err)
			}
		}
	}
	plain := makePod(t, w.as(t, "mallory"), newPod("plain"), ns)
	plain.OwnerReferences = owner(job)
	_, err := w.as(t, "mallory").CoreV1().Pods(ns).Update(t.Context(), plain, metav1.UpdateOptions{})
	forbidden(t, "a pod that is given to it later", err)
	r.bind(plain)
	if got := r.row(plain, delegation.Active); got.Submission.Submitter != "mallory" {
		t.Errorf("mallory became %q", got.Submission.Submitter)
	}

	must(t, w.dynamic(t, "alice").Resource(pytorch).Namespace(ns).Delete(t.Context(), "train", metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationOrphan)}))
	r.closed(job.GetUID(), delegation.WorkGone)
	r.row(pod, delegation.Active) // its rows end with its pods
	must(t, w.admin.CoreV1().Pods(ns).Delete(t.Context(), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}))
	if got := r.row(pod, delegation.Revoked); got.Row.Reason != delegation.PodGone {
		t.Errorf("the worker's row ended by %s", got.Row.Reason)
	}
}

// TestAParentOfACustomKind has a JobSet of alice's, whose Jobs its controller makes and whose pods the Job controller makes: all act
// for alice. A Job that somebody else hangs onto it is its maker's.
func TestAParentOfACustomKind(t *testing.T) {
	w := theWorld(t)
	w.define(t, jobset, "JobSet")
	r := w.running(t)
	ns := w.namespace(t, true, "alice", "mallory", setController)
	set := w.custom(t, "alice", ns, jobset, "JobSet", "set")
	child := newJob("set-workers-0")
	child.OwnerReferences = owner(set)
	job := makeJob(t, w.as(t, setController), ns, child)
	if s := r.submitted(job.UID); s.Submitter != "alice" || s.ViaUID != string(set.GetUID()) || s.GroupKind != "batch/Job" {
		t.Errorf("the JobSet's job: %+v", s)
	}
	pod := r.podOf(job)
	r.bind(pod)
	if got := r.row(pod, delegation.Active); got.Submission.Submitter != "alice" {
		t.Errorf("its pod: %+v", got)
	}
	mine := newJob("mine")
	mine.OwnerReferences = owner(set)
	forged := makeJob(t, w.as(t, "mallory"), ns, mine)
	if s := r.submitted(forged.UID); s.Submitter != "mallory" || s.ViaUID != "" {
		t.Errorf("mallory's job, hung onto it: %+v", s)
	}
	orphan := newJob("nobodys")
	lost := makeJob(t, w.as(t, setController), ns, orphan)
	r.warned(ns, lost.UID, "no_parent")
	r.unknown(lost.UID)
	patch := []byte(`{"spec":{"replicas":{"template":{"spec":{"containers":[{"name":"main","image":"registry.example/evil:1"}]}}}}}`)
	_, err := w.dynamic(t, "mallory").Resource(jobset).Namespace(ns).Patch(t.Context(), "set", "application/merge-patch+json", patch, metav1.PatchOptions{})
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "ValidatingAdmissionPolicy 'lanyard-job-templates'") {
		t.Errorf("mallory changes what it makes pods from: %v", err)
	}
}

// TestTemplatePaths lets mallory change custom objects of alice's whose kind has paths: a right one, one that is misspelt, and one of another
// version that the definition serves.
func TestTemplatePaths(t *testing.T) {
	w := theWorld(t)
	w.define(t, pytorch, "PyTorchJob")
	ns := w.namespace(t, true, "alice", "mallory")
	w.custom(t, "alice", ns, pytorch, "PyTorchJob", "train")
	t.Cleanup(func() { w.apply(t, settings()) })
	change := func(user, patch string) error {
		_, err := w.dynamic(t, user).Resource(pytorch).Namespace(ns).Patch(t.Context(), "train", types.MergePatchType, []byte(patch), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	const template, scale = `{"spec":{"replicas":{"template":{"spec":{"image":"evil:1"}}}}}`, `{"spec":{"parallelism":3}}`
	guarded := func(name, path string, scales bool) {
		t.Helper()
		s := settings()
		s.TemplatePaths = []string{"kubeflow.org/PyTorchJob:" + path}
		put(t, w, built(t, s, policy.JobTemplates))
		timing.Within(t, 30*time.Second, name+" is in force", func() bool {
			err := change("mallory", scale) // refused or not, that is what tells the policies apart
			return scales == (err == nil) && (err == nil || apierrors.IsForbidden(err))
		})
		if err := change("mallory", template); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "ValidatingAdmissionPolicy 'lanyard-job-templates'") ||
			!strings.Contains(err.Error(), "who alone may change what they are made from") {
			t.Errorf("%s: mallory changes the template: %v", name, err)
		}
		for what, err := range map[string]error{"suspends it": change("mallory", `{"spec":{"suspend":true}}`), "marks it": change("mallory", `{"metadata":{"labels":{"a":"b"}}}`)} {
			if err != nil {
				t.Errorf("%s: mallory %s: %v", name, what, err)
			}
		}
		must(t, change("alice", template))
	}
	for name, path := range map[string]string{
		"a misspelt path":        "spec.replica.template",
		"a misspelt last key":    "spec.replicas.templates",
		"a path of another form": "spec.pytorchReplicaSpecs",
	} {
		// Between any two of them the right one is in force, or the second would seem to be so at once.
		guarded("the right path, before "+name, "spec.replicas.template", true)
		guarded(name, path, false)
	}
}

// gauge is the value of a gauge without labels.
func value(t *testing.T, reg *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := reg.Gather()
	must(t, err)
	for _, f := range families {
		if f.GetName() == name {
			m := f.GetMetric()[0]
			return m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	t.Fatalf("there is no series %s", name)
	return 0
}

// TestAKindThatIsGone takes a kind's definition away while nobody looks: its open submissions are counted, not asked for over and over,
// and end after a while.
func TestAKindThatIsGone(t *testing.T) {
	w := theWorld(t)
	remove := w.define(t, pytorch, "PyTorchJob")
	r := w.running(t)
	ns := w.namespace(t, true, "alice")
	job := w.custom(t, "alice", ns, pytorch, "PyTorchJob", "train")
	r.submitted(job.GetUID())
	r.stop()
	remove()
	reg := prometheus.NewRegistry()
	m, err := reconcile.NewMetrics(reg)
	must(t, err)
	r = w.begin(t, func(o *reconcile.Options) { o.Metrics, o.Every, o.KindGone = m, 500*time.Millisecond, 4*time.Second })
	timing.Within(t, 30*time.Second, "it is counted", func() bool { return value(t, reg, "lanyard_exchange_orphaned_submissions") == 1 })
	if s := r.submitted(job.GetUID()); !s.Open() {
		t.Errorf("it has ended at once: %+v", s)
	}
	r.closed(job.GetUID(), delegation.WorkGone)
	timing.Within(t, 30*time.Second, "it is counted no more", func() bool { return value(t, reg, "lanyard_exchange_orphaned_submissions") == 0 })
	if n := value(t, reg, "lanyard_exchange_reconcile_errors_total"); n > 0 {
		t.Errorf("%v attempts have failed", n)
	}
	if _, ok := job.GetAnnotations()[wire.AnnotationCreatedBy]; !ok {
		t.Error("the object was not stamped")
	}
}
