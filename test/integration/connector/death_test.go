//go:build linux

package connector

import (
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lanyard-k8s/lanyard/test/timing"
)

// TestT3T4T5T6DeadPods: a token that was good a moment before is refused within a second of its pod's end, in both roles,
// although the API server goes on accepting it.
func TestT3T4T5T6DeadPods(t *testing.T) {
	h := shared.home(t)
	socket, deployment := h.run(), h.run(func(p *plan) { p.deployment = true })
	answers := timing.Answers{}
	for role, r := range map[string]*running{"socket": socket, "deployment": deployment} {
		for name, tc := range map[string]struct {
			end   func(*corev1.Pod)
			grace time.Duration
		}{
			"T3 deleted":     {func(p *corev1.Pod) { h.remove(p, 0) }, 0},
			"T4 terminating": {func(p *corev1.Pod) { h.remove(p, 2) }, 2 * time.Second},
			"T5 succeeded": {func(p *corev1.Pod) {
				p = p.DeepCopy()
				p.Status.Phase = corev1.PodSucceeded
				_, err := h.Admin.CoreV1().Pods(h.namespace).UpdateStatus(t.Context(), p, metav1.UpdateOptions{})
				must(t, err)
			}, 0},
			"T6 made anew under its name": {func(p *corev1.Pod) { h.remove(p, 0); h.remove(h.pod(p.Name, monitor, h.node.Name), 0) }, 0},
		} {
			t.Run(role+": "+name, func(t *testing.T) {
				pod := h.pod("short-lived", monitor, h.node.Name)
				defer func() {
					zero := int64(0)
					_ = h.Admin.CoreV1().Pods(h.namespace).Delete(t.Context(), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &zero})
				}()
				token := h.of(pod)
				must(t, r.call(token, ""))
				before := r.counter(violation("pod_not_live"))
				tc.end(pod)
				start := time.Now()
				timing.Within(t, tc.grace+30*time.Second, "the token is refused", func() bool {
					return status.Code(r.call(token, "")) == codes.Unauthenticated
				})
				took := time.Since(start)
				t.Logf("refused %s after the API server had taken the end", took)
				answers.Note(role+": a token whose pod has ended", time.Second, took-tc.grace)
				if r.counter(violation("pod_not_live")) == before {
					t.Error("not counted as pod_not_live")
				}
			})
		}
	}
	answers.Judge(t) // a review for want of a watch comes ten seconds later
}

// TestT7ANodeThatWasMadeAnew: the token of the old machine is refused, although the API server goes on vouching for it.
func TestT7ANodeThatWasMadeAnew(t *testing.T) {
	h := shared.home(t)
	socket, deployment := h.run(), h.run(func(p *plan) { p.deployment = true })
	token := h.of(h.pod("here", monitor, h.node.Name))
	must(t, socket.call(token, ""))
	must(t, deployment.call(token, ""))
	nodes := h.Admin.CoreV1().Nodes()
	must(t, nodes.Delete(t.Context(), h.node.Name, metav1.DeleteOptions{}))
	timing.Within(t, 30*time.Second, "the node is gone", func() bool {
		_, err := nodes.Get(t.Context(), h.node.Name, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
	h.newNode(h.node.Name)
	for role, r := range map[string]*running{"socket": socket, "deployment": deployment} {
		took := timing.Within(t, 20*time.Second, role+": the old machine's token is refused", func() bool {
			return status.Code(r.call(token, "")) == codes.PermissionDenied
		})
		t.Logf("%s: refused %s after the new node was made", role, took)
		if r.counter(violation("node_uid_mismatch")) == 0 {
			t.Errorf("%s: not counted as node_uid_mismatch", role)
		}
	}
}

// TestT8AnAccountThatWasMadeAnew: a token of the old account that nobody has presented yet is refused at once. One that is
// known is refused by the next review, which package tokens shows.
func TestT8AnAccountThatWasMadeAnew(t *testing.T) {
	h := shared.home(t)
	r := h.run()
	token := h.token(monitor, nil)
	must(t, h.Admin.CoreV1().ServiceAccounts(h.namespace).Delete(t.Context(), monitor, metav1.DeleteOptions{}))
	h.account(monitor)
	timing.Within(t, 30*time.Second, "the token is refused", func() bool {
		return status.Code(r.call(token, "")) == codes.Unauthenticated
	})
}
