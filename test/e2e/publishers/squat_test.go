//go:build linux

package publishers

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// visits are what a squatter tells of those who came to it.
type visits struct {
	Connections *int   `json:"connections"`
	Bytes       *int64 `json:"bytes"`
}

func (r *rig) tookBy(t testing.TB, squatter *corev1.Pod) visits {
	t.Helper()
	all := lines(r.log(t, squatter, "main"), func(one visits) bool { return one.Connections != nil })
	if len(all) == 0 {
		return visits{Connections: new(int), Bytes: new(int64)}
	}
	return all[len(all)-1]
}

// called is how many connections a squatter had so far.
func (r *rig) called(t testing.TB, squatter *corev1.Pod) int {
	return *r.tookBy(t, squatter).Connections
}

// sentTo is how many bytes it was sent.
func (r *rig) sentTo(t testing.TB, squatter *corev1.Pod) int64 { return *r.tookBy(t, squatter).Bytes }

// end has the kubelet end a pod's containers and keep their logs, which a deletion would not.
func (r *rig) end(ctx context.Context, pod *corev1.Pod) error {
	_, err := r.admin.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, []byte(`{"spec":{"activeDeadlineSeconds":1}}`), metav1.PatchOptions{})
	return err
}
