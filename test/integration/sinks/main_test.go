//go:build unix

package sinks

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/policy"
	"github.com/lanyard-k8s/lanyard/test/cluster"
	"github.com/lanyard-k8s/lanyard/test/cluster/program"
)

// namespace is the release's.
const namespace = "lanyard"

// startTimeout is for the first time, when Kubernetes has to be built; it takes seconds later.
const startTimeout = 30 * time.Minute

// environment is the control plane that the tests share. The first test that asks for it starts it.
type environment struct {
	once sync.Once
	cp   *cluster.ControlPlane
	err  error
}

var shared environment

func TestMain(m *testing.M) {
	code := m.Run()
	if shared.cp != nil {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := shared.cp.Stop(ctx); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = max(code, 1)
		}
	}
	os.Exit(code)
}

func (e *environment) start() {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	if e.cp, e.err = cluster.Start(ctx, cluster.Options{Out: os.Stderr}); e.err == nil {
		e.err = e.prepare(ctx)
	}
}

// controlPlane returns the shared control plane, or skips the test where it cannot be built for reasons outside the project.
func controlPlane(t *testing.T) *cluster.ControlPlane {
	t.Helper()
	shared.once.Do(shared.start)
	if errors.Is(shared.err, program.ErrNoGo) || errors.Is(shared.err, program.ErrNoModules) {
		t.Skipf("no control plane to test on: %v", shared.err)
	}
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	return shared.cp
}

// client acts by a configuration.
func client(t *testing.T, config *rest.Config) kubernetes.Interface {
	t.Helper()
	c, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func admin(t *testing.T) kubernetes.Interface {
	t.Helper()
	config, err := controlPlane(t).Config()
	if err != nil {
		t.Fatal(err)
	}
	return client(t, config)
}

// rights are what the chart's ClusterRoles give to the two roles of the connector with the kubernetes sink, and nothing else.
func rights() map[string][]rbacv1.PolicyRule {
	sink := []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"nodes/status"}, Verbs: []string{"patch"}},
		{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}},
		{APIGroups: []string{"authentication.k8s.io"}, Resources: []string{"tokenreviews"}, Verbs: []string{"create"}},
	}
	return map[string][]rbacv1.PolicyRule{
		wire.AccountSocketConnector:     append(sink[:3:3], rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"get", "list", "watch"}}),
		wire.AccountDeploymentConnector: append(sink[:3:3], rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods", "nodes"}, Verbs: []string{"list", "watch"}}),
		"nobody":                        {},
	}
}

// prepare makes accounts, their rights and the policy.
func (e *environment) prepare(ctx context.Context) error {
	config, err := e.cp.Config()
	if err != nil {
		return err
	}
	c, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	var errs []error
	note := func(_ any, err error) { errs = append(errs, err) }
	note(c.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{}))
	for name, rules := range rights() {
		meta := metav1.ObjectMeta{Name: name}
		note(c.CoreV1().ServiceAccounts(namespace).Create(ctx, &corev1.ServiceAccount{ObjectMeta: meta}, metav1.CreateOptions{}))
		note(c.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: meta, Rules: rules}, metav1.CreateOptions{}))
		note(c.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
			ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: name, Namespace: namespace}},
		}, metav1.CreateOptions{}))
	}
	for _, p := range policy.All(policy.Settings{
		Mode: policy.Enforce, SocketConnector: wire.Account{Namespace: namespace, Name: wire.AccountSocketConnector}.Username(), ForeignConditions: []string{"KernelDeadlock"},
	}) {
		if p.Policy.Name == wire.PolicyNodeStatus {
			note(c.AdmissionregistrationV1().ValidatingAdmissionPolicies().Create(ctx, p.Policy, metav1.CreateOptions{}))
			note(c.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Create(ctx, p.Binding, metav1.CreateOptions{}))
		}
	}
	errs = append(errs, e.cp.AwaitServiceAccount(ctx, namespace))
	return errors.Join(errs...)
}

// newNode makes a node with the conditions of a kubelet and of somebody else.
func newNode(t *testing.T, name string) *corev1.Node {
	t.Helper()
	c := admin(t)
	made, err := c.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: name, Labels: map[string]string{"pool": "gpu"},
		Annotations: map[string]string{"node.alpha.kubernetes.io/ttl": "0"}, // or a controller would add it at some moment
	}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.CoreV1().Nodes().Delete(context.Background(), name, metav1.DeleteOptions{}) })
	before := metav1.NewTime(time.Now().Add(-time.Hour).Truncate(time.Second))
	for typ, reason := range map[corev1.NodeConditionType]string{
		corev1.NodeReady: "KubeletReady", corev1.NodeMemoryPressure: "KubeletHasSufficientMemory", corev1.NodeDiskPressure: "KubeletHasNoDiskPressure",
		corev1.NodePIDPressure: "KubeletHasSufficientPID", corev1.NodeNetworkUnavailable: "RouteCreated", "KernelDeadlock": "KernelHasNoDeadlock", "Theirs": "SomebodyElses",
	} {
		made.Status.Conditions = append(made.Status.Conditions, corev1.NodeCondition{
			Type: typ, Status: corev1.ConditionFalse, Reason: reason, Message: "as it was", LastHeartbeatTime: before, LastTransitionTime: before,
		})
	}
	made, err = c.CoreV1().Nodes().UpdateStatus(t.Context(), made, metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// connector acts as a connector's account, by a token that is bound to a pod on a node.
func connector(t *testing.T, account, node string) kubernetes.Interface {
	t.Helper()
	c, cp := admin(t), controlPlane(t)
	pod, err := c.CoreV1().Pods(namespace).Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "connector-"},
		Spec:       corev1.PodSpec{ServiceAccountName: account, NodeName: node, Containers: []corev1.Container{{Name: "connector", Image: "registry.example/lanyard:1"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	token, err := c.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), account, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return client(t, cp.ConfigForToken(token.Status.Token))
}
