//go:build unix

package integration

import (
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/lanyard-k8s/lanyard/api/wire"
)

// askToken asks the token API for a token of a namespace's default account.
func askToken(t *testing.T, client kubernetes.Interface, namespace string, audiences ...string) error {
	t.Helper()
	_, err := client.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), "default", &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{Audiences: audiences},
	}, metav1.CreateOptions{})
	return err
}

// TestTokenRequests proves that the right to make tokens is not the right to make ours: nobody gets a protected audience by
// the token API but kubelets (TestKubeletGetsTheTokenOfItsPod) and listed identities, in no namespace.
func TestTokenRequests(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t, nil)
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "token-makers-" + namespace},
		Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"serviceaccounts/token"}, Verbs: []string{"create"}},
			{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"create"}},
		},
	}
	if _, err := admin(t).RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	const broker = "system:serviceaccount:lanyard-platform:broker"
	for _, user := range []string{"alice", broker, broker + "2"} {
		grant(t, namespace, role.Name, user)
	}
	clients := map[string]*kubernetes.Clientset{"alice": as(t, "alice"), "an administrator": admin(t), "a namesake": as(t, broker+"2")}
	for name, client := range clients {
		t.Run(name, func(t *testing.T) {
			accepted(t, askToken(t, client, namespace))
			accepted(t, askToken(t, client, namespace, "vault", "spire"))
			for _, audiences := range [][]string{
				{wire.DefaultJobAudience}, {wire.DefaultPublisherAudience}, {"vault", wire.DefaultJobAudience},
				{wire.DefaultPublisherAudience, wire.DefaultJobAudience},
			} {
				refused(t, askToken(t, client, namespace, audiences...), "lanyard-token-requests", "handed out in no other way")
			}
		})
	}
	accepted(t, askToken(t, as(t, broker), namespace, wire.DefaultJobAudience))
	accepted(t, askToken(t, as(t, broker), namespace, wire.DefaultPublisherAudience, "vault"))

	sh := shellOf(t, "alice", namespace)
	sh.refused(t, "", []string{"create", "token", "default", "--audience=" + wire.DefaultJobAudience}, "lanyard-token-requests")
}
