//go:build unix

package integration

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lanyard-k8s/lanyard/test/cluster"
)

// eviction asks for a pod to leave.
func eviction(pod *corev1.Pod) *policyv1.Eviction {
	return &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: pod.Namespace}}
}

// drain empties a node as administrators do. There is no kubelet to confirm that a pod has ended, so that it must not be
// waited for.
func drain(t *testing.T, namespace, node string) {
	t.Helper()
	shellOf(t, cluster.Admin, namespace).must(t, "", "drain", node, "--ignore-daemonsets", "--force", "--grace-period=0", "--timeout=3m")
}
