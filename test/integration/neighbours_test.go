//go:build unix

package integration

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/lanyard-k8s/lanyard/api/wire"
)

// What follows proves that Lanyard gets along with the API server's own admission and with other ways of writing a pod.

// TestRestrictedNamespace has PodSecurity look at the injected pod. The service account's own token is mounted too.
func TestRestrictedNamespace(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t, map[string]string{
		wire.LabelJobs: wire.JobsManaged, wire.LabelPublishers: wire.PublishersEnabled, "pod-security.kubernetes.io/enforce": "restricted",
	})
	pod := makePod(t, editor(t, "alice", namespace), namespace, asPublisher(), func(p *corev1.Pod) {
		p.Spec.AutomountServiceAccountToken = nil
		p.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{
			AllowPrivilegeEscalation: new(false), RunAsNonRoot: new(true), RunAsUser: new(int64(1000)),
			Capabilities:   &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		}
	})
	if got := pod.Labels[wire.LabelInjected]; got != "publisher.job" || len(pod.Spec.Volumes) != 4 {
		t.Errorf("injected as %q with %d volumes, want 4: the account's, two tokens and the CA", got, len(pod.Spec.Volumes))
	}
}

// TestPodAppliedAgain applies a bare pod's manifest twice, each way: the second time there is nothing to do.
func TestPodAppliedAgain(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	for name, flags := range map[string][]string{"client": nil, "server": {"--server-side"}} {
		pod := newPod()
		pod.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
		pod.Name, pod.GenerateName = name, ""
		text, err := yaml.Marshal(pod)
		if err != nil {
			t.Fatal(err)
		}
		var versions [2]string
		for i := range versions {
			p.alice.must(t, string(text), append([]string{"apply", "-f", "-"}, flags...)...)
			versions[i] = p.alice.must(t, "", "get", "pod/"+name, "-o", "jsonpath={.metadata.resourceVersion} {.spec.volumes[*].name}")
		}
		if diff := cmp.Diff(versions[0], versions[1]); diff != "" {
			t.Errorf("applying on the %s's side again has changed the pod (-first +second):\n%s", name, diff)
		}
	}
}

// TestDeprecatedAccountField lists a publisher by the field that serviceAccountName has replaced.
func TestDeprecatedAccountField(t *testing.T) {
	t.Parallel()
	namespace := namedNamespace(t, "lanyard-deprecated")
	makeAccount(t, namespace, "monitor")
	pod := makePod(t, editor(t, "alice", namespace), namespace, func(p *corev1.Pod) { p.Spec.DeprecatedServiceAccount = "monitor" })
	if got := pod.Labels[wire.LabelInjected]; got != "publisher" {
		t.Errorf("injected as %q", got)
	}
}

// TestOtherSubresources tries to write the stamp and the injected label by ways that no rule of ours names: none of them
// stores metadata.
func TestOtherSubresources(t *testing.T) {
	t.Parallel()
	namespace := managed(t)
	alice := editor(t, "alice", namespace)
	pod := makePod(t, alice, namespace, labelled(wire.LabelRole, wire.RoleNone))
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"bob"},"labels":{%q:"job"}}}`, wire.AnnotationCreatedBy, wire.LabelInjected)
	for _, subresource := range []string{"resize", "ephemeralcontainers"} {
		// Whether it is an error or no change is the API server's affair.
		_, _ = admin(t).CoreV1().Pods(namespace).Patch(t.Context(), pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, subresource)
		got, err := alice.CoreV1().Pods(namespace).Get(t.Context(), pod.Name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if got.Annotations[wire.AnnotationCreatedBy] != "alice" || got.Labels[wire.LabelInjected] != "" {
			t.Errorf("by %s the stamp became %q and the label %q", subresource, got.Annotations[wire.AnnotationCreatedBy], got.Labels[wire.LabelInjected])
		}
	}
	shellOf(t, "alice", namespace).must(t, cronJob(t, "nightly"), "create", "-f", "-")
	_, err := admin(t).BatchV1().CronJobs(namespace).Patch(t.Context(), "nightly", types.MergePatchType, stampedBy("bob"), metav1.PatchOptions{}, "status")
	refused(t, err, "lanyard-creator-stamp")
}
