//go:build unix

package integration

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// podOf waits for the job controller to make a job's pod.
func podOf(t *testing.T, namespace, job string) *corev1.Pod {
	t.Helper()
	return podWith(t, namespace, "batch.kubernetes.io/job-name="+job)
}

// podWith waits for a pod that a selector matches.
func podWith(t *testing.T, namespace, selector string) *corev1.Pod {
	t.Helper()
	var pod *corev1.Pod
	eventually(t, "there is a pod with "+selector, func(ctx context.Context) (bool, error) {
		list, err := admin(t).CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
		if err != nil || len(list.Items) == 0 {
			return false, err
		}
		pod = &list.Items[0]
		return true, nil
	})
	return pod
}
