//go:build linux

package exchange

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/policy"
	"github.com/lanyard-k8s/lanyard/test/cluster/install"
	"github.com/lanyard-k8s/lanyard/test/timing"
)

// release is the namespace that the chart is installed in.
const release = "lanyard-system"

// installed are the policies' settings that the chart makes of its defaults.
func installed() policy.Settings {
	account := func(name string) string { return "system:serviceaccount:" + release + ":" + name }
	return policy.Settings{
		Mode: policy.Enforce, Jobs: true, PublisherAudience: wire.DefaultPublisherAudience, JobAudience: wire.DefaultJobAudience,
		JobTokenFile:    wire.DefaultJobMountPath + "/" + wire.TokenFile,
		ReleaseAccounts: []string{account("lanyard-connector"), account("lanyard-connector-deployment"), account("lanyard-exchange")},
		Kinds: []policy.Kind{{
			Group: "batch", Kind: "Job", Resource: "jobs", PodCreators: []string{"system:serviceaccount:kube-system:job-controller"},
			AdoptionLabels: []string{"batch.kubernetes.io/controller-uid", "controller-uid", "batch.kubernetes.io/job-name", "job-name"},
		}},
		Delegating:         []policy.Controller{{Identity: "system:serviceaccount:kube-system:cronjob-controller", Parents: []string{"batch/CronJob"}}},
		ExcludedNamespaces: []string{"kube-system", "kube-public", "kube-node-lease", release},
	}
}

// TestTheWholePath: alice submits a Job in a managed namespace. The webhook stamps and injects, the policies guard, the job controller
// makes the pod, the program judges it, and the pod's token becomes alice's.
func TestTheWholePath(t *testing.T) {
	if shared.Absent != nil {
		t.Skipf("no control plane to test on: %v", shared.Absent)
	}
	h := shared.house(t)
	in, err := install.Start(t.Context(), h.ControlPlane, install.Options{Out: os.Stderr, Namespace: release, Values: "webhook: {timeoutSeconds: 10}"})
	must(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := in.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	h.secret()
	h.judges()
	h.manage()
	policies, err := json.Marshal(installed())
	must(t, err)
	file := t.TempDir() + "/policies.json"
	must(t, os.WriteFile(file, policies, 0o600))
	r := h.start("reconcile: {policies: " + file + ", cluster: test}\nallowedSubmitterServiceAccounts: []")
	alice := h.as("alice", "system:authenticated")
	kubelet := h.as("system:node:"+node, "system:nodes", "system:masters")
	var (
		pod   *corev1.Pod
		token string
		a     answer
	)
	again := time.NewTicker(500 * time.Millisecond)
	defer again.Stop()
	for attempt := 0; a.status != 200 && attempt < 120; attempt++ { // what was made before the guards had been seen in order is never confirmed
		<-again.C
		pod = h.submit(alice, fmt.Sprintf("train-%d", attempt))
		token = tokenOf(t, kubelet, h.namespace, pod)
		a = post(t, r.client, r.base+wire.PathToken, wire.DefaultJobAudience, token)
	}
	if a.status != 200 {
		t.Fatalf("no pod's token was ever exchanged: %v", a.body)
	}
	claims := verified(t, r.get(t, wire.PathJWKS).body, a.token())
	if claims["sub"] != "alice" || fmt.Sprint(claims["act"]) != "map[sub:system:serviceaccount:"+h.namespace+":default]" {
		t.Errorf("claims %v", claims)
	}
	h.ends(r, kubelet, pod, token)
}

// ends finishes the pod: its token goes on being valid for the API server, and is refused.
func (h *house) ends(r *running, kubelet kubernetes.Interface, pod *corev1.Pod, token string) {
	h.t.Helper()
	fresh, err := kubelet.CoreV1().Pods(h.namespace).Get(h.t.Context(), pod.Name, metav1.GetOptions{})
	must(h.t, err)
	fresh.Status.Phase = corev1.PodSucceeded
	_, err = h.Admin.CoreV1().Pods(h.namespace).UpdateStatus(h.t.Context(), fresh, metav1.UpdateOptions{})
	must(h.t, err)
	timing.Within(h.t, 20*time.Second, "the finished pod's token is refused", func() bool {
		return post(h.t, r.client, r.base+wire.PathToken, wire.DefaultJobAudience, token).status == 400
	})
	h.reviewed(token)
}

// as is a client of somebody.
func (h *house) as(user string, groups ...string) kubernetes.Interface {
	h.t.Helper()
	config, err := h.ConfigFor(user, groups...)
	must(h.t, err)
	client, err := kubernetes.NewForConfig(config)
	must(h.t, err)
	return client
}

// manage marks the house's namespace managed, and lets alice work in it.
func (h *house) manage() {
	h.t.Helper()
	ns, err := h.Admin.CoreV1().Namespaces().Get(h.t.Context(), h.namespace, metav1.GetOptions{})
	must(h.t, err)
	ns.Labels[wire.LabelJobs] = wire.JobsManaged
	_, err = h.Admin.CoreV1().Namespaces().Update(h.t.Context(), ns, metav1.UpdateOptions{})
	must(h.t, err)
	_, err = h.Admin.RbacV1().RoleBindings(h.namespace).Create(h.t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "alice"}, Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "alice"}},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "edit"},
	}, metav1.CreateOptions{})
	must(h.t, err)
}

// judges lets the exchange's account see what it judges by.
func (h *house) judges() {
	h.t.Helper()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "exchange-judges"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: []string{"get", "list", "watch"}},
		{APIGroups: []string{"batch"}, Resources: []string{"jobs", "cronjobs"}, Verbs: []string{"get", "list", "watch"}},
		{APIGroups: []string{"admissionregistration.k8s.io"}, Resources: []string{"validatingadmissionpolicies", "validatingadmissionpolicybindings"}, Verbs: []string{"get", "list", "watch"}},
		{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}},
	}}
	_, err := h.Admin.RbacV1().ClusterRoles().Create(h.t.Context(), role, metav1.CreateOptions{})
	must(h.t, err)
	_, err = h.Admin.RbacV1().ClusterRoleBindings().Create(h.t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role.Name}, Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: exchangeUser}},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
	}, metav1.CreateOptions{})
	must(h.t, err)
}

// submit makes a Job and returns its pod, on the node.
func (h *house) submit(client kubernetes.Interface, name string) *corev1.Pod {
	h.t.Helper()
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		AutomountServiceAccountToken: new(false), RestartPolicy: corev1.RestartPolicyNever,
		Containers: []corev1.Container{{Name: "main", Image: "registry.example/main:1"}},
	}}}}
	var err error
	timing.Within(h.t, 2*time.Minute, "alice may submit", func() bool {
		var made *batchv1.Job
		if made, err = client.BatchV1().Jobs(h.namespace).Create(h.t.Context(), job, metav1.CreateOptions{}); err == nil {
			job = made
		}
		return err == nil
	})
	var pod *corev1.Pod
	timing.Within(h.t, 2*time.Minute, "there is a pod of "+name, func() bool {
		list, err := h.Admin.CoreV1().Pods(h.namespace).List(h.t.Context(), metav1.ListOptions{LabelSelector: "controller-uid=" + string(job.UID)})
		if err != nil || len(list.Items) == 0 {
			return false
		}
		pod = &list.Items[0]
		return true
	})
	must(h.t, h.Admin.CoreV1().Pods(h.namespace).Bind(h.t.Context(), &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: pod.Name}, Target: corev1.ObjectReference{Kind: "Node", Name: node},
	}, metav1.CreateOptions{}))
	return pod
}
