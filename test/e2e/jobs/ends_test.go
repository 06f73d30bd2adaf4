//go:build linux

package jobs

import (
	"bufio"
	"context"
	"encoding/json"
	"path"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/test/e2e/house"
)

// thief copies a pod's subject token off its node into a pod of bob's, which presents it over and over. That works as long as the
// pod lives: whoever reads a node's disk has its pods' tokens. What counts is when it ends.
func thief(t *testing.T, h *house.House, victim *corev1.Pod, name string) *corev1.Pod {
	t.Helper()
	file := path.Join("/var/lib/kubelet/pods", string(victim.UID), "volumes/kubernetes.io~projected", wire.VolumeJob, wire.TokenFile)
	token, err := h.Cluster.InNode(t.Context(), victim.Spec.NodeName, "cat", file)
	if err != nil || token == "" {
		t.Fatalf("reading the token of %s on its node: %v", victim.Name, err)
	}
	_, err = h.Admin.CoreV1().Secrets(house.Managed).Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string][]byte{wire.TokenFile: []byte(token)},
	}, metav1.CreateOptions{})
	must(t, err)
	t.Cleanup(func() {
		_ = h.Admin.CoreV1().Secrets(house.Managed).Delete(context.Background(), name, metav1.DeleteOptions{}) // the cluster ends anyway
	})
	pod := house.Pod(name, "job", "--mode=http", "--again=200ms", "--token-file=/loot/"+wire.TokenFile)
	pod.Spec.Volumes = []corev1.Volume{{Name: "loot", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: name}}}}
	pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "loot", MountPath: "/loot", ReadOnly: true}}
	made := h.MustCreate(t, h.MustClient(t, house.Bob), house.Managed, pod)
	awaitMore(t, h, made, 2, "granted with what was stolen", func(i identity) bool { return granted(i) && i.Subject == house.Alice })
	return made
}

// TestATokenEndsWithItsPod has a stolen token refused when its pod has finished, though the pod object is still there and
// TokenReview would take it, and after its pod was deleted; within the grace period the pod still gets its last checkpoint out.
func TestATokenEndsWithItsPod(t *testing.T) {
	t.Parallel()
	h := enter(t)
	alice := h.MustClient(t, house.Alice)
	t.Run("finished", func(t *testing.T) {
		t.Parallel()
		pod := h.PodOfJob(t, h.MustSubmit(t, alice, house.Managed, house.Job("finishing", "sleep", "--for=25h")))
		pod = h.AwaitPod(t, pod.Namespace, pod.Name, corev1.PodRunning)
		by := thief(t, h, pod, "thief-of-finished")
		if out, err := h.Cluster.InNode(t.Context(), pod.Spec.NodeName, "pkill", "-TERM", "-f", "sleep --for=2[5]h"); err != nil { // it ends well
			t.Fatalf("ending the program of %s: %v: %s", pod.Name, err, out)
		}
		h.AwaitPod(t, pod.Namespace, pod.Name, corev1.PodSucceeded)
		awaitMore(t, h, by, 3, "refused", refused)
		if _, err := h.Admin.CoreV1().Pods(pod.Namespace).Get(t.Context(), pod.Name, metav1.GetOptions{}); err != nil {
			t.Errorf("the finished pod is gone, so that this showed nothing: %v", err)
		}
		stayRefused(t, h, by)
	})
	t.Run("deleted", func(t *testing.T) {
		t.Parallel()
		job := house.Job("leaving", "job", "--mode=http", "--again=1s", "--last=5s")
		job.Spec.Template.Spec.TerminationGracePeriodSeconds = new(int64(30))
		pod := h.PodOfJob(t, h.MustSubmit(t, alice, house.Managed, job))
		pod = h.AwaitPod(t, pod.Namespace, pod.Name, corev1.PodRunning)
		by := thief(t, h, pod, "thief-of-deleted")
		log := follow(t, h, pod)
		must(t, alice.BatchV1().Jobs(house.Managed).Delete(t.Context(), "leaving",
			metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)}))
		if last := <-log; !last.Last || last.Subject != house.Alice || last.Error != "" {
			t.Errorf("the last checkpoint, five seconds into the grace period: %+v", last)
		}
		awaitMore(t, h, by, 3, "refused", refused)
		stayRefused(t, h, by)
	})
}

// stayRefused wants nothing to have been granted after the first refusal.
func stayRefused(t *testing.T, h *house.House, by *corev1.Pod) {
	t.Helper()
	seen := false
	for n, i := range identities(t, h, by) {
		seen = seen || refused(i)
		if seen && !refused(i) {
			t.Errorf("line %d, after a refusal: %+v", n, i)
		}
	}
}

// follow reads a pod's log to its end, beyond its deletion, and hands over the last line.
func follow(t *testing.T, h *house.House, pod *corev1.Pod) <-chan identity {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel)
	stream, err := h.Admin.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{Container: "main", Follow: true}).Stream(ctx)
	must(t, err)
	out := make(chan identity, 1)
	go func() {
		defer close(out)
		defer func() { _ = stream.Close() }()
		var last identity
		lines := bufio.NewScanner(stream)
		for lines.Scan() {
			last = identity{}
			if err := json.Unmarshal(lines.Bytes(), &last); err != nil {
				last.Error = "a line that is no JSON"
			}
		}
		if err := lines.Err(); err != nil {
			last.Error = "following the log: " + err.Error()
		}
		out <- last
	}()
	return out
}
