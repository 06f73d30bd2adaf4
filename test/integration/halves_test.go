//go:build unix

package integration

import (
	"context"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/lanyard-k8s/lanyard/api/wire"
)

// What follows takes one half of Lanyard away, to see what the other one still does by itself.

func withoutWebhooks(t *testing.T) {
	t.Helper()
	if err := installation(t).RemoveWebhooks(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { restore(t, installation(t).ApplyWebhooks(context.Background())) })
}

func withoutPolicies(t *testing.T) {
	t.Helper()
	if err := installation(t).RemovePolicies(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { restore(t, installation(t).ApplyPolicies(context.Background())) })
}

func deployment(name string, template corev1.PodTemplateSpec, selector *metav1.LabelSelector) *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: appsv1.DeploymentSpec{Selector: selector, Template: template}}
}

// TestPoliciesAlone removes the webhook configurations: the API server refuses by itself what would be untrue or unsafe.
func TestPoliciesAlone(t *testing.T) {
	namespace := managed(t)
	alice, bob := editor(t, "alice", namespace), editor(t, "bob", namespace)
	makeJob(t, alice, namespace, newJob("train"))
	withoutWebhooks(t)

	_, err := tryPod(t, alice, namespace, newPod())
	refused(t, err, "lanyard-creator-required", "webhook configuration is missing", "Your manifest is fine", "tell the platform team")
	_, err = tryPod(t, alice, namespace, newPod(annotated(wire.AnnotationCreatedBy, "bob")))
	refused(t, err, "lanyard-creator-stamp", "names somebody else")
	_, err = tryPod(t, alice, namespace, newPod(annotated(wire.AnnotationCreatedBy, "alice"), setting(wire.EnvPrincipal, "root")))
	refused(t, err, "lanyard-reserved-names", "spec.containers[main].env[NMP_PRINCIPAL]")
	_, err = tryPod(t, alice, namespace, newPod(annotated(wire.AnnotationCreatedBy, "alice"), labelled(wire.LabelInjected, "job")))
	refused(t, err, "lanyard-injected-label")
	for _, stamp := range []any{"bob", nil} {
		_, err = bob.BatchV1().Jobs(namespace).Patch(t.Context(), "train", types.MergePatchType, stampedBy(stamp), metav1.PatchOptions{})
		refused(t, err, "lanyard-creator-", "leave it as it is")
	}
	template, selector := workload()
	template.Spec.Containers[0].Env = []corev1.EnvVar{{Name: wire.EnvPrincipal, Value: "root"}}
	_, err = alice.AppsV1().Deployments(namespace).Create(t.Context(), deployment("web", template, selector), metav1.CreateOptions{})
	refused(t, err, "lanyard-reserved-names", "spec.template.spec.containers[main].env[NMP_PRINCIPAL]")
	refused(t, askToken(t, admin(t), namespace, wire.DefaultJobAudience), "lanyard-token-requests")

	// Who writes the truth by hand is as good; without the webhook nobody gets a token.
	pod := makePod(t, alice, namespace, annotated(wire.AnnotationCreatedBy, "alice"))
	if len(pod.Spec.Volumes) > 0 {
		t.Errorf("the pod has volumes: %v", pod.Spec.Volumes)
	}
	_, err = bob.BatchV1().Jobs(namespace).Patch(t.Context(), "train", types.MergePatchType, []byte(`{"spec":{"parallelism":2}}`), metav1.PatchOptions{})
	accepted(t, err)
}

// TestWebhooksAlone removes the policies: the webhook still stamps, injects, and refuses what it sees.
func TestWebhooksAlone(t *testing.T) {
	namespace := managed(t)
	alice := editor(t, "alice", namespace)
	withoutPolicies(t)
	identified(t, makePod(t, alice, namespace, annotated(wire.AnnotationCreatedBy, "bob")), "alice")
	_, err := tryPod(t, alice, namespace, newPod(setting(wire.EnvPrincipal, "root")))
	refused(t, err, `"job.mutate.lanyard.dev" denied`, wire.EnvPrincipal)
	_, err = tryPod(t, alice, namespace, newPod(withToken(wire.DefaultJobAudience)))
	refused(t, err, "spec.volumes[0].projected.sources[0].serviceAccountToken.audience")
	_, err = tryPod(t, alice, namespace, newPod(withToken(wire.DefaultPublisherAudience)))
	refused(t, err, "spec.volumes[0].projected.sources[0].serviceAccountToken.audience")
	makeJob(t, alice, namespace, newJob("train"))
	got, err := alice.BatchV1().Jobs(namespace).Patch(t.Context(), "train", types.MergePatchType, stampedBy("bob"), metav1.PatchOptions{})
	if err != nil || got.Annotations[wire.AnnotationCreatedBy] != "alice" {
		t.Errorf("the stamp was not put back: %v (%v)", got.Annotations, err)
	}
	pod := makePod(t, alice, namespace)
	_, err = addDebugger(t, pod, mounting(wire.VolumeJob, "/elsewhere"))
	refused(t, err, `"job.validate.lanyard.dev" denied`)
	_, err = addDebugger(t, pod, principal)
	refused(t, err, `"job.validate.lanyard.dev" denied`, "spec.ephemeralContainers[0].env[0].name")
}

// TestNeitherHalf removes everything: nothing of Lanyard is left that could stand in the way, and all is well when it is back.
func TestNeitherHalf(t *testing.T) {
	namespace := managed(t)
	alice := editor(t, "alice", namespace)
	t.Run("without", func(t *testing.T) {
		withoutWebhooks(t)
		withoutPolicies(t)
		pod := makePod(t, alice, namespace, setting(wire.EnvPrincipal, "root"), annotated(wire.AnnotationCreatedBy, "bob"))
		if len(pod.Spec.Volumes) > 0 || pod.Annotations[wire.AnnotationCreatedBy] != "bob" {
			t.Errorf("somebody changed the pod: %v, %v", pod.Spec.Volumes, pod.Annotations)
		}
	})
	identified(t, makePod(t, alice, namespace), "alice")
}
