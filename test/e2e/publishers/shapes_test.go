//go:build linux

package publishers

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/lanyard-k8s/lanyard/api/wire"
)

// TestShapesOfPublishers runs publishers of the shapes that manifests give them.
func TestShapesOfPublishers(t *testing.T) {
	t.Parallel()
	r, one := enter(t), []string{"publisher", "--store-only", "--count=1", "--id"}
	for name, tc := range map[string]struct {
		space  string
		change change
	}{
		"on the network of the host":   {listedSpace, func(p *corev1.Pod) { p.Spec.HostNetwork, p.Spec.DNSPolicy = true, corev1.DNSClusterFirstWithHostNet }},
		"asking for the role by label": {labelledSpace, asking},
		"as root": {listedSpace, func(p *corev1.Pod) {
			no, root := false, int64(0)
			p.Spec.SecurityContext.RunAsNonRoot, p.Spec.SecurityContext.RunAsUser = &no, &root
		}},
		"with a read-only root":            {listedSpace, func(p *corev1.Pod) { yes := true; p.Spec.Containers[0].SecurityContext.ReadOnlyRootFilesystem = &yes }},
		"with no token for the API server": {listedSpace, func(p *corev1.Pod) { no := false; p.Spec.AutomountServiceAccountToken = &no }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			id := strings.ToLower(strings.ReplaceAll(name, " ", "-"))
			pod := r.create(t, r.publisherPod(tc.space, id, monitor, r.far, append(one, id)...), tc.change)
			wantTaken(t, r.one(t, pod))
			await(t, patience, "the event is stored", func() bool { return len(r.rows(t, r.far, id+"-")) == 1 })
			if got := r.rows(t, r.far, id+"-")[0]; got.PodUID != string(pod.UID) || got.Node != r.far {
				t.Errorf("stored as %+v, want pod %s on %s", got, pod.UID, r.far)
			}
		})
	}
}

// TestANativeSidecarPublishes: the token is there when a native sidecar starts, before any other container does.
func TestANativeSidecarPublishes(t *testing.T) {
	t.Parallel()
	r, always := enter(t), corev1.ContainerRestartPolicyAlways
	pod := r.publisherPod(listedSpace, "with-sidecar", monitor, r.far, "exit", "--after=4s")
	sidecar := r.container("monitor", "publisher", "--store-only", "--interval=200ms")
	sidecar.RestartPolicy, sidecar.VolumeMounts = &always, pod.Spec.Containers[0].VolumeMounts
	pod.Spec.InitContainers = []corev1.Container{sidecar}
	pod = r.create(t, pod)
	if got := pod.Annotations[wire.AnnotationPublisherContainers]; !strings.Contains(got, "monitor") {
		t.Errorf("containers with the token: %q, want the sidecar among them", got)
	}
	r.awaitPhase(t, pod, corev1.PodSucceeded)
	all := lines(r.log(t, pod, "monitor"), isBatch)
	if len(all) == 0 || count(all, "refused")+count(all, "unanswered") > 0 {
		t.Errorf("the sidecar's batches: %+v, want some, and all of them acknowledged", all)
	}
}
