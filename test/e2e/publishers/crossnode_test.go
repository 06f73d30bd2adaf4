//go:build linux

package publishers

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// deploy runs a pod as a Deployment of one replica, and returns the pod.
func (r *rig) deploy(t testing.TB, pod *corev1.Pod) *corev1.Pod {
	t.Helper()
	pod.Spec.RestartPolicy = corev1.RestartPolicyAlways
	d, err := r.admin.AppsV1().Deployments(pod.Namespace).Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: pod.Name},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": pod.Name}},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: pod.Labels}, Spec: pod.Spec},
		},
	}, metav1.CreateOptions{})
	must(t, err)
	t.Cleanup(func() {
		_ = r.admin.AppsV1().Deployments(d.Namespace).Delete(cleaning(), d.Name, metav1.DeleteOptions{}) // the cluster ends anyway
	})
	var made *corev1.Pod
	await(t, patience, "the Deployment has its pod", func() bool {
		list, err := r.admin.CoreV1().Pods(d.Namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "app=" + d.Name})
		if err == nil && len(list.Items) == 1 && list.Items[0].Spec.NodeName != "" {
			made = &list.Items[0]
		}
		return made != nil
	})
	return made
}

// TestACrossNodeMonitor is a Deployment whose account is on the cross-node list. From its own node's socket it may name either node;
// what it may not is leave the name out, since nobody can guess it.
func TestACrossNodeMonitor(t *testing.T) {
	t.Parallel()
	r := enter(t)
	pod := r.deploy(t, r.publisherPod(crossSpace, "fleet", fleetMonitor, r.near, "publisher", "--node="+r.far, "--check=FleetCheck", "--fatal"))
	r.acknowledged(t, pod, 2)
	await(t, patience, "the events are in the connector's log", func() bool { return len(r.written(t, r.near, pod.Name+"-")) > 0 })
	for _, e := range r.written(t, r.near, pod.Name+"-") {
		if e.Scope != "cross_node" || e.Node != r.far || e.PodUID != string(pod.UID) {
			t.Errorf("written as %+v, want it to be of scope cross_node and about %s", e, r.far)
		}
	}
	if c := r.condition(t, r.far, "FleetCheck"); c != nil {
		t.Errorf("%s shows %+v, which a node's connector has no power to write there", r.far, c)
	}
	blank := r.create(t, r.publisherPod(crossSpace, "fleet-blank", fleetMonitor, r.near, "publisher", "--count=1"))
	wantRefusal(t, r.one(t, blank), "InvalidArgument", "has no node name, and none can be guessed")
	r.refusedFor(t, r.near, "missing_node_name", blank)
}

// TestAnUnlistedDeployment is the same without the list.
func TestAnUnlistedDeployment(t *testing.T) {
	t.Parallel()
	r := enter(t)
	pod := r.deploy(t, r.publisherPod(listedSpace, "unlisted", monitor, r.near, "publisher", "--node="+r.far, "--check=UnlistedCheck", "--fatal"))
	await(t, patience, "three batches are answered", func() bool { return len(r.batches(t, pod)) >= 3 })
	for _, b := range r.batches(t, pod) {
		wantRefusal(t, b, "PermissionDenied", "names another node than the caller's own")
	}
	r.refusedFor(t, r.near, "node_mismatch", pod)
}
