//go:build unix

package integration

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/test/cluster"
)

// debugCopy has a user copy a pod as `kubectl debug --copy-to=copy` does: owners are dropped, labels and annotations too
// unless they are asked for, volumes are kept, and a container is added.
func debugCopy(pod *corev1.Pod, more ...string) []string {
	return slices.Concat([]string{"debug", "pod/" + pod.Name, "--copy-to=copy", "--image=registry.example/tools:1",
		"--container=debugger", "--attach=false"}, more)
}

// TestCopyOfAPublisher is refused without its role label, since it would carry the token's volume without the right to it,
// and accepted with it. The copy is a new pod, so that the added container is one of those first seen, unless the annotation
// that records them is kept.
func TestCopyOfAPublisher(t *testing.T) {
	t.Parallel()
	namespace := publishing(t)
	alice := editor(t, "alice", namespace)
	sh := shellOf(t, "alice", namespace)
	pod := makePod(t, alice, namespace, asPublisher())
	sh.refused(t, "", debugCopy(pod), "lanyard-protected-audiences", "remove that projected volume", "publisher role")
	sh.must(t, "", debugCopy(pod, "--keep-labels", "--keep-annotations")...)
	got, err := alice.CoreV1().Pods(namespace).Get(t.Context(), "copy", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"main"}, tokenIn(got, wire.VolumePublisher)); diff != "" {
		t.Errorf("containers of the copy with the token (-want +got):\n%s", diff)
	}
}

// TestCopyOfAJobsPod is a bare pod of the person who copied it, with that person's stamp and for that person's identity,
// which every container that the copy is created with may use.
func TestCopyOfAJobsPod(t *testing.T) {
	t.Parallel()
	namespace := managed(t)
	alice := editor(t, "alice", namespace)
	editor(t, "bob", namespace)
	makeJob(t, alice, namespace, newJob("train", withToken("vault")))
	pod := podOf(t, namespace, "train")
	shellOf(t, "bob", namespace).must(t, "", debugCopy(pod)...)
	got, err := alice.CoreV1().Pods(namespace).Get(t.Context(), "copy", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if stamp := got.Annotations[wire.AnnotationCreatedBy]; stamp != "bob" {
		t.Errorf("the copy is stamped %q", stamp)
	}
	for volume, want := range map[string][]string{wire.VolumeJob: {"main", "debugger"}, "own": {"main"}} {
		if diff := cmp.Diff(want, tokenIn(got, volume)); diff != "" {
			t.Errorf("containers of the copy with %s (-want +got):\n%s", volume, diff)
		}
	}
	if twice := doubled(got); len(twice) > 0 {
		t.Errorf("doubled: %q", twice)
	}
}

// TestExportOfAnInjectedPod is created again by somebody else from what kubectl prints of it: nothing is added twice, and the
// stamp is the other person's.
func TestExportOfAnInjectedPod(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	pod := makePod(t, as(t, "alice"), p.namespace, asPublisher())
	exported := p.alice.must(t, "", "get", "pod/"+pod.Name, "-o", "yaml")
	p.bob.must(t, exported, "replace", "--force", "-f", "-")
	got, err := admin(t).CoreV1().Pods(p.namespace).Get(t.Context(), pod.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got.UID == pod.UID {
		t.Error("the pod was not created again")
	}
	identified(t, got, "bob")
	if diff := cmp.Diff(pod.Spec, got.Spec); diff != "" {
		t.Errorf("the pod has changed on its way (-first +second):\n%s", diff)
	}
}

// TestCopyIntoAnotherNamespace takes a job's pod where nothing is managed: only the platform's own audience stays behind.
func TestCopyIntoAnotherNamespace(t *testing.T) {
	t.Parallel()
	from, to := managed(t), newNamespace(t, nil)
	pod := makePod(t, editor(t, "alice", from), from, withToken("vault"))
	alice := editor(t, "alice", to)
	taken := newPod(func(p *corev1.Pod) { p.Spec = pod.Spec })
	_, err := tryPod(t, alice, to, taken)
	refused(t, err, "lanyard-protected-audiences", `audience nemo-platform`, "only pods of managed jobs may have")
	makePod(t, alice, to, withToken("vault"))
	for _, audience := range []string{wire.DefaultJobAudience, wire.DefaultPublisherAudience} {
		_, err := tryPod(t, admin(t), to, newPod(withToken(audience)))
		refused(t, err, "lanyard-protected-audiences", audience)
	}
	shellOf(t, cluster.Admin, to).refused(t, "", []string{"debug", "pod/none", "--copy-to=copy", "--image=x"}, "not found")
}
