//go:build linux

package publishers

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/lanyard-k8s/lanyard/test/e2e/house"
)

// patience is how long something may take that takes seconds on an idle machine. It is longer than program workload tries a batch for, so that
// a publisher tells why its batch was not taken.
const patience = 5 * time.Minute

// rig is the cluster as the tests see it.
type rig struct {
	*house.House
	admin kubernetes.Interface
	image string // the workload's
	space string // the release's namespace
	near  string // a node that is never cut off
	far   string // the other one
	since time.Time

	rotated *corev1.Pod            // its token is rotated
	forgers map[string]*corev1.Pod // by their nodes
}

// await polls until something is so, and returns how long that took. What it waits for is a sentence for the failed test.
func await(t testing.TB, within time.Duration, what string, so func() bool) time.Duration {
	t.Helper()
	begin := time.Now()
	for !so() {
		if time.Since(begin) > within {
			t.Fatalf("after %s it is still not so: %s", within, what)
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-t.Context().Done():
			t.Fatalf("stopped while waiting: %s", what)
		}
	}
	return time.Since(begin)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// create creates a pod, which goes at the end of the test, and returns it as the API server has it.
func (r *rig) create(t testing.TB, pod *corev1.Pod, changes ...change) *corev1.Pod {
	t.Helper()
	pod, err := r.make(t.Context(), pod, changes...)
	must(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			r.tell(t, pod)
		}
		r.remove(pod)
	})
	return pod
}

// make creates a pod. Right after an installation a webhook may be out of reach for a moment.
func (r *rig) make(ctx context.Context, pod *corev1.Pod, changes ...change) (*corev1.Pod, error) {
	for _, c := range changes {
		c(pod)
	}
	for begin := time.Now(); ; {
		made, err := r.admin.CoreV1().Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{})
		if err == nil || !strings.Contains(err.Error(), "failed calling webhook") || time.Since(begin) > patience {
			return made, err
		}
		select {
		case <-time.After(250 * time.Millisecond):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// remove deletes a pod and does not wait.
func (r *rig) remove(pod *corev1.Pod) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	_ = r.admin.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{}) // the cluster ends anyway
}

// tell shows what became of a pod, for a failed test.
func (r *rig) tell(t testing.TB, pod *corev1.Pod) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	now, err := r.admin.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
	if err != nil {
		t.Logf("pod %s: %v", pod.Name, err)
		return
	}
	for _, s := range slices.Concat(now.Status.InitContainerStatuses, now.Status.ContainerStatuses) {
		out, _ := r.output(ctx, now, s.Name, false)
		t.Logf("pod %s on %s, %s, container %s %s:\n%s", now.Name, now.Spec.NodeName, now.Status.Phase, s.Name, stateOf(s), tail(out))
	}
}

func stateOf(s corev1.ContainerStatus) string {
	switch {
	case s.State.Waiting != nil:
		return "waits: " + s.State.Waiting.Reason + " " + s.State.Waiting.Message
	case s.State.Terminated != nil:
		return fmt.Sprintf("ended with %d", s.State.Terminated.ExitCode)
	default:
		return fmt.Sprintf("runs, restarted %d times", s.RestartCount)
	}
}

// fresh reads a pod again.
func (r *rig) fresh(t testing.TB, pod *corev1.Pod) *corev1.Pod {
	t.Helper()
	now, err := r.admin.CoreV1().Pods(pod.Namespace).Get(t.Context(), pod.Name, metav1.GetOptions{})
	must(t, err)
	return now
}

// ended waits until a pod has ended, and returns what its publisher said.
func (r *rig) ended(t testing.TB, pod *corev1.Pod) []batch {
	t.Helper()
	r.awaitPhase(t, pod, corev1.PodSucceeded, corev1.PodFailed)
	return r.batches(t, pod)
}

// awaitPhase waits until a pod is in one of some phases.
func (r *rig) awaitPhase(t testing.TB, pod *corev1.Pod, phases ...corev1.PodPhase) {
	t.Helper()
	await(t, patience, fmt.Sprintf("pod %s is %v", pod.Name, phases), func() bool {
		now, err := r.admin.CoreV1().Pods(pod.Namespace).Get(t.Context(), pod.Name, metav1.GetOptions{})
		return err == nil && slices.Contains(phases, now.Status.Phase)
	})
}

// acknowledged waits until a publisher has had so many batches acknowledged.
func (r *rig) acknowledged(t testing.TB, pod *corev1.Pod, atLeast int) time.Duration {
	t.Helper()
	return await(t, patience, fmt.Sprintf("%d batches of %s are acknowledged", atLeast, pod.Name), func() bool {
		return count(r.batches(t, pod), "acknowledged") >= atLeast
	})
}

// one wants a publisher to have sent one batch, and returns what became of it.
func (r *rig) one(t testing.TB, pod *corev1.Pod) batch {
	t.Helper()
	all := r.ended(t, pod)
	if len(all) != 1 {
		r.tell(t, r.fresh(t, pod))
		t.Fatalf("pod %s had %d batches answered, want 1", pod.Name, len(all))
	}
	return all[0]
}

// wantRefusal wants a batch to be refused with a code, and to be told this.
func wantRefusal(t testing.TB, b batch, code, says string) {
	t.Helper()
	if b.Outcome != "refused" || b.Code != code || !strings.Contains(b.Message, says) {
		t.Errorf("batch %s: %s, %s: %s; want it refused, %s: ...%s...", b.ID, b.Outcome, b.Code, b.Message, code, says)
	}
}

// wantTaken wants a batch to be acknowledged.
func wantTaken(t testing.TB, b batch) {
	t.Helper()
	if b.Outcome != "acknowledged" {
		t.Errorf("batch %s: %s, %s: %s; want it acknowledged", b.ID, b.Outcome, b.Code, b.Message)
	}
}

// connector is the connector's pod on a node.
func (r *rig) connector(t testing.TB, node string) *corev1.Pod {
	t.Helper()
	pods, err := r.connectors(t.Context(), "connector", node)
	must(t, err)
	if len(pods) != 1 {
		t.Fatalf("%d connectors on %s, want 1", len(pods), node)
	}
	return &pods[0]
}

// connectors are the pods of a component, on a node unless that is empty, that are not on their way out.
func (r *rig) connectors(ctx context.Context, component, node string) ([]corev1.Pod, error) {
	list, err := r.admin.CoreV1().Pods(r.space).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/component=" + component})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(list.Items, func(p corev1.Pod) bool {
		return p.DeletionTimestamp != nil || node != "" && p.Spec.NodeName != node
	}), nil
}

// ready says whether a node's connector takes events, by its pod's condition.
func (r *rig) ready(ctx context.Context, node string) bool {
	pods, err := r.connectors(ctx, "connector", node)
	if err != nil || len(pods) != 1 {
		return false
	}
	return house.IsReady(&pods[0])
}

// written are the lines of the log sink of a node's connector about events whose ids have a beginning.
func (r *rig) written(t testing.TB, node, prefix string) []event {
	t.Helper()
	out, err := r.output(t.Context(), r.connector(t, node), "connector", false)
	must(t, err)
	return lines(out, func(e event) bool { return e.Message == "health event" && strings.HasPrefix(e.ID, prefix) })
}

// condition is a node's condition of a type, or nil.
func (r *rig) condition(t testing.TB, node, kind string) *corev1.NodeCondition {
	t.Helper()
	n, err := r.admin.CoreV1().Nodes().Get(t.Context(), node, metav1.GetOptions{})
	must(t, err)
	if i := slices.IndexFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool { return string(c.Type) == kind }); i >= 0 {
		return &n.Status.Conditions[i]
	}
	return nil
}
