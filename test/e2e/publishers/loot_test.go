//go:build linux

package publishers

import (
	"context"
	"fmt"
	"path"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lanyard-k8s/lanyard/api/wire"
)

// lootFile is where a thief's pod has the token that was taken from another.
const lootFile = "/loot/" + wire.TokenFile

// tokenOnNode is where the kubelet keeps a publisher's token on its node.
func tokenOnNode(pod *corev1.Pod) string {
	return path.Join("/var/lib/kubelet/pods", string(pod.UID), "volumes/kubernetes.io~projected", wire.VolumePublisher, wire.TokenFile)
}

// loot copies a publisher's token off its node into a Secret of the strangers', and returns what gives it to a pod of theirs. The
// token is in this process's memory meanwhile and in nothing that it writes.
func (r *rig) loot(t testing.TB, victim *corev1.Pod, name string) change {
	t.Helper()
	token, err := r.inside(t.Context(), nodeOf(victim), "cat", tokenOnNode(victim))
	if err != nil || token == "" {
		t.Fatalf("reading the token of %s on its node: %v", victim.Name, err)
	}
	_, err = r.admin.CoreV1().Secrets(strangerSpace).Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string][]byte{wire.TokenFile: []byte(token)},
	}, metav1.CreateOptions{})
	must(t, err)
	t.Cleanup(func() {
		_ = r.admin.CoreV1().Secrets(strangerSpace).Delete(context.Background(), name, metav1.DeleteOptions{}) // the cluster ends anyway
	})
	return volume("loot", path.Dir(lootFile), true, corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: name}})
}

// podsOf waits for the pods of a DaemonSet on both nodes, and returns them by their nodes.
func (r *rig) podsOf(t testing.TB, set *appsv1.DaemonSet) map[string]*corev1.Pod {
	t.Helper()
	out := map[string]*corev1.Pod{}
	await(t, patience, "the DaemonSet has a pod on each node", func() bool {
		clear(out)
		list, err := r.admin.CoreV1().Pods(set.Namespace).List(t.Context(), metav1.ListOptions{LabelSelector: metav1.FormatLabelSelector(set.Spec.Selector)})
		if err != nil {
			return false
		}
		for i, p := range list.Items {
			if p.DeletionTimestamp == nil && p.Spec.NodeName != "" {
				out[p.Spec.NodeName] = &list.Items[i]
			}
		}
		return len(out) == 2
	})
	return out
}

func (r *rig) removeSet(set *appsv1.DaemonSet) {
	_ = r.admin.AppsV1().DaemonSets(set.Namespace).Delete(context.Background(), set.Name, metav1.DeleteOptions{}) // the cluster ends anyway
}

// awaitMore waits until a pod has tried so many times more.
func (r *rig) awaitMore(t testing.TB, pod *corev1.Pod, more int) {
	t.Helper()
	before := len(r.attempts(t, pod))
	await(t, patience, fmt.Sprintf("%s tries %d times more", pod.Name, more), func() bool { return len(r.attempts(t, pod)) >= before+more })
}
