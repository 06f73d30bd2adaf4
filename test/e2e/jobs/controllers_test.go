//go:build linux

package jobs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/test/e2e/house"
)

// service is a Deployment of a helper, which asks for no identity.
func service(name string, replicas int32) *appsv1.Deployment {
	pod := house.Pod(name, "sleep")
	pod.Spec.RestartPolicy = corev1.RestartPolicyAlways
	labels := map[string]string{"app": name, wire.LabelRole: wire.RoleNone}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: pod.Spec},
		},
	}
}

// available waits until a Deployment is as it was last asked to be, and returns the names of its pods.
func available(t *testing.T, h *house.House, name string) []string {
	t.Helper()
	house.Eventually(t, "deployment "+name+" to be rolled out", func(ctx context.Context) error {
		d, err := h.Admin.AppsV1().Deployments(house.Managed).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if s, want := d.Status, *d.Spec.Replicas; s.ObservedGeneration != d.Generation || s.UpdatedReplicas != want || s.Replicas != want || s.AvailableReplicas != want {
			return fmt.Errorf("%d of %d updated, %d in all, %d available", s.UpdatedReplicas, want, s.Replicas, s.AvailableReplicas)
		}
		return nil
	})
	var names []string
	for _, p := range podsOf(t, h, house.Managed, "app="+name) {
		if p.DeletionTimestamp == nil {
			names = append(names, p.Name)
		}
	}
	slices.Sort(names)
	return names
}

// TestTheClustersOwnControllersAreUndisturbed has the rollout of a Deployment, the TTL of finished Jobs, garbage collection and a
// drain at work in a managed namespace with every policy on.
func TestTheClustersOwnControllersAreUndisturbed(t *testing.T) {
	h := enter(t)
	alice := h.MustClient(t, house.Alice)
	_, err := alice.AppsV1().Deployments(house.Managed).Create(t.Context(), service("helper", 2), metav1.CreateOptions{})
	must(t, err)
	t.Cleanup(func() {
		_ = h.Admin.AppsV1().Deployments(house.Managed).Delete(context.Background(), "helper", metav1.DeleteOptions{}) // the cluster ends anyway
	})
	first := available(t, h, "helper")

	t.Run("a rollout restart", func(t *testing.T) {
		patch := fmt.Sprintf(`{"spec":{"template":{"metadata":{"annotations":{"kubectl.kubernetes.io/restartedAt":%q}}}}}`, time.Now().Format(time.RFC3339))
		_, err := alice.AppsV1().Deployments(house.Managed).Patch(t.Context(), "helper", types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{})
		must(t, err)
		for _, name := range available(t, h, "helper") {
			if slices.Contains(first, name) {
				t.Errorf("pod %s was not replaced", name)
			}
		}
	})
	t.Run("the time to live of finished jobs", func(t *testing.T) {
		job := house.Job("short-lived", "exit")
		job.Spec.TTLSecondsAfterFinished = new(int32(1))
		made := h.MustSubmit(t, alice, house.Managed, job)
		pod := h.PodOfJob(t, made)
		gone(t, h, made.Name, pod.Name)
	})
	t.Run("garbage collection", func(t *testing.T) {
		made := h.MustSubmit(t, alice, house.Managed, house.Job("abandoned", "sleep"))
		pod := h.PodOfJob(t, made)
		must(t, alice.BatchV1().Jobs(house.Managed).Delete(t.Context(), made.Name, metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationForeground)}))
		gone(t, h, made.Name, pod.Name)
	})
	t.Run("a drain, after which the job's next pod has its identity", func(t *testing.T) {
		job := house.Job("moving", "job", "--mode=http", "--again=1s")
		job.Spec.BackoffLimit = new(int32(6))
		made := h.MustSubmit(t, alice, house.Managed, job)
		pod := h.PodOfJob(t, made)
		pod = h.AwaitPod(t, pod.Namespace, pod.Name, corev1.PodRunning)
		awaitMore(t, h, pod, 1, "granted", granted)
		node := pod.Spec.NodeName
		out, err := h.Cluster.Kubectl(t.Context(), "drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--force", "--timeout=5m")
		t.Cleanup(func() {
			if out, err := h.Cluster.Kubectl(context.Background(), "uncordon", node); err != nil {
				t.Errorf("uncordon: %v: %s", err, out)
			}
		})
		if err != nil {
			t.Fatalf("drain: %v: %s", err, out)
		}
		var next corev1.Pod
		house.Eventually(t, "the job's next pod", func(context.Context) error {
			for _, p := range podsOf(t, h, house.Managed, "batch.kubernetes.io/job-name=moving") {
				if p.UID != pod.UID && p.Spec.NodeName != "" {
					next = p
					return nil
				}
			}
			return errors.New("there is none")
		})
		// The exchange may have been on the drained node, with its volume; it is back once the node is.
		if out, err := h.Cluster.Kubectl(t.Context(), "uncordon", node); err != nil {
			t.Fatalf("uncordon: %v: %s", err, out)
		}
		h.AwaitPod(t, next.Namespace, next.Name, corev1.PodRunning)
		awaitMore(t, h, &next, 1, "granted", func(i identity) bool { return granted(i) && i.Subject == house.Alice })
		available(t, h, "helper")
	})
}

// gone waits until a Job and its pod are.
func gone(t *testing.T, h *house.House, job, pod string) {
	t.Helper()
	house.Eventually(t, "job "+job+" and its pod to be gone", func(ctx context.Context) error {
		if _, err := h.Admin.BatchV1().Jobs(house.Managed).Get(ctx, job, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return errors.Join(errors.New("the job is there"), err)
		}
		if _, err := h.Admin.CoreV1().Pods(house.Managed).Get(ctx, pod, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			return errors.Join(errors.New("the pod is there"), err)
		}
		return nil
	})
}
