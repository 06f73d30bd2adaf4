//go:build unix

package integration

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/lanyard-k8s/lanyard/api/wire"
)

// labelNamespace has the platform's administrator label a namespace, and waits until the webhook and the policies look at it.
func labelNamespace(t *testing.T, namespace string) {
	t.Helper()
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:%q}}}`, wire.LabelJobs, wire.JobsManaged)
	_, err := admin(t).CoreV1().Namespaces().Patch(t.Context(), namespace, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	// The API server learns of the label by a watch of its own, from which webhooks and policies are served alike.
	eventually(t, "new pods are injected", func(ctx context.Context) (bool, error) {
		pod, err := admin(t).CoreV1().Pods(namespace).Create(ctx, newPod(), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err == nil && pod.Labels[wire.LabelInjected] != "", err
	})
}

// TestLabelsOnAnExistingPod proves that a label which comes after the pod gives it nothing.
func TestLabelsOnAnExistingPod(t *testing.T) {
	t.Parallel()
	namespace := publishing(t)
	alice := editor(t, "alice", namespace)
	pod := makePod(t, alice, namespace)
	pods := alice.CoreV1().Pods(namespace)
	late := pod.DeepCopy()
	metav1.SetMetaDataLabel(&late.ObjectMeta, wire.LabelRole, wire.RolePublisher)
	late, err := pods.Update(t.Context(), late, metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(pod.Spec, late.Spec); diff != "" {
		t.Errorf("a role label that came late has changed the pod (-before +after):\n%s", diff)
	}
	for _, subresource := range []string{"", "status"} {
		patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:"publisher"}}}`, wire.LabelInjected)
		_, err = admin(t).CoreV1().Pods(namespace).Patch(t.Context(), pod.Name, types.MergePatchType, patch, metav1.PatchOptions{}, subresources(subresource)...)
		refused(t, err, "lanyard-injected-label", "never set, changed or removed afterwards")
	}
	injected := makePod(t, alice, namespace, asPublisher())
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:null}}}`, wire.LabelInjected)
	_, err = pods.Patch(t.Context(), injected.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	refused(t, err, "lanyard-injected-label")
}

// TestPodsOlderThanTheNamespaceLabel proves that pods which break the rules, but were there before, can live and die.
func TestPodsOlderThanTheNamespaceLabel(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t, nil)
	alice := editor(t, "alice", namespace)
	pods := alice.CoreV1().Pods(namespace)
	old := makePod(t, alice, namespace, setting(wire.EnvPrincipal, "root"), setting(wire.EnvSubjectTokenFile, "/own"))
	held := makePod(t, alice, namespace, setting(wire.EnvPrincipal, "root"), func(p *corev1.Pod) { p.Finalizers = []string{"example.com/hold"} })
	labelNamespace(t, namespace)
	_, err := tryPod(t, alice, namespace, newPod(setting(wire.EnvPrincipal, "root")))
	refused(t, err, wire.EnvPrincipal)

	metav1.SetMetaDataAnnotation(&old.ObjectMeta, "example.com/note", "x")
	old, err = pods.Update(t.Context(), old, metav1.UpdateOptions{})
	if err != nil {
		t.Fatalf("updating an old pod: %v", err)
	}
	old.Status.Phase = corev1.PodSucceeded
	_, err = admin(t).CoreV1().Pods(namespace).UpdateStatus(t.Context(), old, metav1.UpdateOptions{})
	accepted(t, err)
	stored, err := addDebugger(t, held, nil)
	accepted(t, err)
	if err == nil && len(stored.Spec.EphemeralContainers) != 1 {
		t.Errorf("the old pod has %d debug containers", len(stored.Spec.EphemeralContainers))
	}
	for _, name := range []string{old.Name, held.Name} {
		accepted(t, pods.Delete(t.Context(), name, metav1.DeleteOptions{}))
	}
	_, err = pods.Patch(t.Context(), held.Name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	accepted(t, err)
	for _, name := range []string{old.Name, held.Name} {
		if _, err := pods.Get(t.Context(), name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("pod %s is still there (%v)", name, err)
		}
	}
}

// TestJobOlderThanTheNamespaceLabel lets a job whose template breaks the rules make its pods after the namespace has been
// labelled: they are refused, the job's owner is told why by an Event, and the job can be deleted.
func TestJobOlderThanTheNamespaceLabel(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t, nil)
	alice := editor(t, "alice", namespace)
	jobs := alice.BatchV1().Jobs(namespace)
	job := newJob("old", setting(wire.EnvPrincipal, "root"))
	job.Spec.Suspend = new(true)
	makeJob(t, alice, namespace, job)
	labelNamespace(t, namespace)
	_, err := jobs.Patch(t.Context(), "old", types.MergePatchType, []byte(`{"spec":{"suspend":false}}`), metav1.PatchOptions{})
	if err != nil {
		t.Fatalf("resuming the job: %v", err)
	}
	var message string
	eventually(t, "an Event tells why there is no pod", func(ctx context.Context) (bool, error) {
		events, err := alice.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{FieldSelector: "reason=FailedCreate,involvedObject.name=old"})
		if err != nil || len(events.Items) == 0 {
			return false, err
		}
		message = events.Items[0].Message
		return true, nil
	})
	said(t, message, `"job.mutate.lanyard.dev" denied`, `spec.containers[0].env[0].name`, `"NMP_PRINCIPAL" is set by the platform`)
	if pods, err := alice.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{}); err != nil || len(pods.Items) > 0 {
		t.Errorf("the job has %d pods (%v)", len(pods.Items), err)
	}
	accepted(t, jobs.Delete(t.Context(), "old", metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationForeground)}))
	eventually(t, "the job is gone", func(ctx context.Context) (bool, error) {
		_, err := jobs.Get(ctx, "old", metav1.GetOptions{})
		return apierrors.IsNotFound(err), err
	})
}

// subresources is the rest of a patch's arguments.
func subresources(name string) []string {
	if name == "" {
		return nil
	}
	return []string{name}
}
