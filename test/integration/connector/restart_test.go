//go:build linux

package connector

import (
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/test/timing"
)

// TestT5APodThatEndedBeforeTheConnectorBegan: reviews go on accepting its token, and the Deployment's watch of running pods never shows it. A
// pod without the webhook's label is on no watch of the Deployment's either, and may report while it runs.
func TestT5APodThatEndedBeforeTheConnectorBegan(t *testing.T) {
	h := shared.home(t)
	ended, failed, runs := h.pod("ended", monitor, h.node.Name), h.pod("failed", monitor, h.node.Name), h.pod("runs", monitor, h.node.Name)
	unlabel := []byte(`{"metadata":{"labels":{"` + wire.LabelInjected + `":null}}}`)
	plain, err := h.Admin.CoreV1().Pods(h.namespace).Patch(t.Context(), h.pod("plain", monitor, h.node.Name).Name, types.MergePatchType, unlabel, metav1.PatchOptions{})
	must(t, err)
	tokens := map[string]string{}
	for _, pod := range []*corev1.Pod{ended, failed, runs, plain} {
		tokens[pod.Name] = h.of(pod)
	}
	end := func(pod *corev1.Pod, phase corev1.PodPhase) {
		pod = pod.DeepCopy()
		pod.Status.Phase = phase
		_, err := h.Admin.CoreV1().Pods(h.namespace).UpdateStatus(t.Context(), pod, metav1.UpdateOptions{})
		must(t, err)
	}
	end(ended, corev1.PodSucceeded)
	end(failed, corev1.PodFailed)
	for role, r := range map[string]*running{"socket": h.run(), "deployment": h.run(func(p *plan) { p.deployment = true })} {
		for _, name := range []string{"ended", "failed"} {
			err := r.call(tokens[name], "")
			if status.Code(err) != codes.Unauthenticated {
				t.Errorf("%s: a pod that has %s: %v, want Unauthenticated", role, name, err)
			}
		}
		if got := r.counter(violation("pod_not_live")); got != 2 {
			t.Errorf("%s: pod_not_live = %v, want 2", role, got)
		}
		must(t, r.call(tokens["runs"], ""))
		must(t, r.call(tokens["plain"], ""))
	}
	r := h.run(func(p *plan) { p.deployment = true })
	must(t, r.call(tokens["plain"], ""))
	end(plain, corev1.PodSucceeded)
	timing.Within(t, 30*time.Second, "the end of a pod that no watch shows is found out with its next review", func() bool {
		return status.Code(r.call(tokens["plain"], "")) == codes.Unauthenticated
	})
}
