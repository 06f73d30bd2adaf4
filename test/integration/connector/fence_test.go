//go:build linux

package connector

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/lanyard-k8s/lanyard/policy"
	"github.com/lanyard-k8s/lanyard/test/timing"
)

const withNodes = "sinks: {kubernetes: {enabled: true}, log: {enabled: false}}\nSPOOL"

// asPod makes the connector act as a pod of its own on the home's first node, with the rights that the kubernetes sink needs.
func (h *home) asPod() (username, kubeconfig string) {
	h.t.Helper()
	h.account("connector")
	username = h.username("connector")
	rbac, name := h.Admin.RbacV1(), h.namespace
	_, err := rbac.ClusterRoles().Create(h.t.Context(), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"authentication.k8s.io"}, Resources: []string{"tokenreviews"}, Verbs: []string{"create"}},
		{APIGroups: []string{""}, Resources: []string{"pods", "nodes"}, Verbs: []string{"get", "list", "watch"}},
		{APIGroups: []string{""}, Resources: []string{"nodes/status"}, Verbs: []string{"patch"}},
		{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}},
	}}, metav1.CreateOptions{})
	must(h.t, err)
	_, err = rbac.ClusterRoleBindings().Create(h.t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: h.namespace, Name: "connector"}},
	}, metav1.CreateOptions{})
	must(h.t, err)
	pod := h.pod("connector", "connector", h.node.Name)
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: h.URL(), CertificateAuthorityData: h.CA()}
	config.AuthInfos["c"] = &clientcmdapi.AuthInfo{Token: h.token("connector", bound(pod), "")}
	config.Contexts["c"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "c"}
	config.CurrentContext = "c"
	kubeconfig = h.t.TempDir() + "/kubeconfig"
	must(h.t, clientcmd.WriteToFile(*config, kubeconfig))
	return username, kubeconfig
}

func (r *running) actAs(h *home, kubeconfig string) *running {
	for i, arg := range r.args {
		if arg == h.kubeconfig {
			r.args[i] = kubeconfig
		}
	}
	return r
}

// TestTheKubernetesSinkNeedsItsFence starts without the policy, which ends the connector, and with it.
func TestTheKubernetesSinkNeedsItsFence(t *testing.T) {
	h := shared.home(t)
	username, kubeconfig := h.asPod()
	nodes := func(p *plan) { p.settings = withNodes }
	bare := h.prepare(nodes).actAs(h, kubeconfig)
	bare.process = bare.start()
	select {
	case <-bare.process.Done():
	case <-time.After(time.Minute):
		t.Error("goes on without the policy")
	}
	if !strings.Contains(bare.log(), "connector: fence: the cluster lacks the policy") {
		t.Errorf("it says: %s", bare.log())
	}

	admission := h.Admin.AdmissionregistrationV1()
	for _, p := range policy.All(policy.Settings{SocketConnector: username}) {
		if p.Policy.Name != policy.NodeStatus {
			continue
		}
		_, err := admission.ValidatingAdmissionPolicies().Create(t.Context(), p.Policy, metav1.CreateOptions{})
		must(t, err)
		_, err = admission.ValidatingAdmissionPolicyBindings().Create(t.Context(), p.Binding, metav1.CreateOptions{})
		must(t, err)
	}
	r := h.prepare(nodes).actAs(h, kubeconfig)
	r.begin()
	must(t, r.call(h.of(h.pod("here", monitor, h.node.Name)), ""))
	timing.Within(t, time.Minute, "the node has its condition", func() bool {
		node, err := h.Admin.CoreV1().Nodes().Get(t.Context(), h.node.Name, metav1.GetOptions{})
		must(t, err)
		for _, c := range node.Status.Conditions {
			if c.Type == "GpuXidError" {
				return c.Status == corev1.ConditionTrue && c.Reason == "GpuXidErrorIsNotHealthy"
			}
		}
		return false
	})
}
