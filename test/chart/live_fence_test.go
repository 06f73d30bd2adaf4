//go:build unix

package chart

import (
	"context"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/test/cluster"
)

// fenced is a cluster with two nodes and the socket connector's pod on the first. Its account may write everything, so that
// what is refused is refused by the policy.
type fenced struct {
	t     *testing.T
	cp    *cluster.ControlPlane
	admin *kubernetes.Clientset
	own   string
	other string
}

func newFenced(t *testing.T) *fenced {
	t.Helper()
	cp := live(t)
	config, err := cp.Config()
	if err != nil {
		t.Fatal(err)
	}
	f := &fenced{t: t, cp: cp, admin: kubernetes.NewForConfigOrDie(config)}
	prefix := strings.ToLower(t.Name())
	f.own, f.other = f.node(prefix+"-own"), f.node(prefix+"-other")
	f.allow("nodes-"+prefix, rbacv1.PolicyRule{APIGroups: []string{"", "events.k8s.io"}, Resources: []string{"nodes", "nodes/status", "nodes/proxy", "events"}, Verbs: []string{"*"}})
	f.await()
	return f
}

// await waits until the policy is in force.
func (f *fenced) await() {
	f.t.Helper()
	connector, last := f.as(wire.AccountSocketConnector, f.own), error(nil)
	err := wait.PollUntilContextTimeout(f.t.Context(), 50*time.Millisecond, 3*time.Minute, true, func(ctx context.Context) (bool, error) {
		_, last = connector.CoreV1().Nodes().Patch(ctx, f.own, types.StrategicMergePatchType, []byte(setting("Ready", "False", "x")),
			metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}, "status")
		return last != nil && strings.Contains(last.Error(), wire.PolicyNodeStatus), nil
	})
	if err != nil {
		f.t.Fatalf("%s did not come into force; the last answer was: %v", wire.PolicyNodeStatus, last)
	}
}

// node makes a node with conditions as a running cluster has them.
func (f *fenced) node(name string) string {
	f.t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"pool": "gpu"}}}
	_, err := f.admin.CoreV1().Nodes().Create(f.t.Context(), node, metav1.CreateOptions{})
	f.must(err)
	const status = `{"status":{"capacity":{"cpu":"8"},"conditions":[{"type":"Ready","status":"True","reason":"KubeletReady"},` +
		`{"type":"GpuXid","status":"True","reason":"GpuXidIsNotHealthy"},{"type":"KernelDeadlock","status":"False","reason":"KernelHasNoDeadlock"}]}}`
	_, err = f.admin.CoreV1().Nodes().Patch(f.t.Context(), name, types.StrategicMergePatchType, []byte(status), metav1.PatchOptions{}, "status")
	f.must(err)
	return name
}

// allow gives the account of the socket connector a right, and every other that a test acts as.
func (f *fenced) allow(name string, rules ...rbacv1.PolicyRule) {
	f.t.Helper()
	_, err := f.admin.RbacV1().ClusterRoles().Create(f.t.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}, metav1.CreateOptions{})
	f.must(err)
	_, err = f.admin.RbacV1().ClusterRoleBindings().Create(f.t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: "system:serviceaccounts"}},
	}, metav1.CreateOptions{})
	f.must(err)
}

// as is a client with a real token of the account, bound to a pod on a node; without a node to no pod at all.
func (f *fenced) as(account, node string) *kubernetes.Clientset {
	f.t.Helper()
	request := &authenticationv1.TokenRequest{}
	if node != "" {
		pod, err := f.admin.CoreV1().Pods(Namespace).Create(f.t.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "connector-"},
			Spec:       corev1.PodSpec{NodeName: node, ServiceAccountName: account, Containers: []corev1.Container{{Name: "c", Image: "i"}}},
		}, metav1.CreateOptions{})
		f.must(err)
		request.Spec.BoundObjectRef = &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: pod.Name, UID: pod.UID}
	}
	answer, err := f.admin.CoreV1().ServiceAccounts(Namespace).CreateToken(f.t.Context(), account, request, metav1.CreateOptions{})
	f.must(err)
	return kubernetes.NewForConfigOrDie(f.cp.ConfigForToken(answer.Status.Token))
}

func (f *fenced) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}
