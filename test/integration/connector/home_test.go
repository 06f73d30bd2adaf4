//go:build linux

package connector

import (
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lanyard-k8s/lanyard/api/wire"
)

// home is a test's own namespace, with two accounts and two nodes.
type home struct {
	*world
	t          *testing.T
	namespace  string
	node, away *corev1.Node
}

// The accounts of a home: the second is on the cross-node list.
const (
	monitor = "monitor"
	listed  = "csp-health-monitor"
)

func (w *world) home(t *testing.T) *home {
	t.Helper()
	h := &home{world: w, t: t, namespace: w.Namespace(t, "connector-", monitor, listed)}
	h.node, h.away = h.newNode(h.namespace+"-a"), h.newNode(h.namespace+"-b")
	return h
}

func (h *home) account(name string) {
	h.t.Helper()
	_, err := h.Admin.CoreV1().ServiceAccounts(h.namespace).Create(h.t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	must(h.t, err)
}

func (h *home) username(account string) string {
	return wire.Account{Namespace: h.namespace, Name: account}.Username()
}

func (h *home) newNode(name string) *corev1.Node {
	h.t.Helper()
	node, err := h.Admin.CoreV1().Nodes().Create(h.t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	must(h.t, err)
	return node
}

// pod makes a pod of an account on a node, or on none, with the label of injected pods.
func (h *home) pod(name, account, node string) *corev1.Pod {
	h.t.Helper()
	pod, err := h.Admin.CoreV1().Pods(h.namespace).Create(h.t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{wire.LabelInjected: "publisher"}},
		Spec: corev1.PodSpec{
			NodeName: node, ServiceAccountName: account, Containers: []corev1.Container{{Name: "main", Image: "example.com/monitor:1"}},
		},
	}, metav1.CreateOptions{})
	must(h.t, err)
	return pod
}

// remove deletes a pod; a grace period leaves the object, as no kubelet ends it.
func (h *home) remove(pod *corev1.Pod, grace int64) {
	h.t.Helper()
	must(h.t, h.Admin.CoreV1().Pods(h.namespace).Delete(h.t.Context(), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &grace}))
}

// token requests a token of an account for an object; nil is for none. The audience "" stands for the API server's own.
func (h *home) token(account string, bound *authenticationv1.BoundObjectReference, audiences ...string) string {
	h.t.Helper()
	switch {
	case len(audiences) == 0:
		audiences = []string{audience}
	case audiences[0] == "":
		audiences = nil // the API server's own
	}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: audiences, BoundObjectRef: bound}}
	answer, err := h.Admin.CoreV1().ServiceAccounts(h.namespace).CreateToken(h.t.Context(), account, request, metav1.CreateOptions{})
	must(h.t, err)
	return answer.Status.Token
}

// of requests the token of a pod.
func (h *home) of(pod *corev1.Pod) string {
	return h.token(pod.Spec.ServiceAccountName, bound(pod))
}

func bound(pod *corev1.Pod) *authenticationv1.BoundObjectReference {
	return &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: pod.Name, UID: pod.UID}
}

// ofNode requests a token that is bound to a node.
func (h *home) ofNode(account string, node *corev1.Node) string {
	return h.token(account, &authenticationv1.BoundObjectReference{Kind: "Node", APIVersion: "v1", Name: node.Name, UID: node.UID})
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
