//go:build linux

package jobs

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/test/e2e/house"
)

// adminPort is where the exchange's pod answers admins, on its own loopback.
const adminPort = 8444

// revoke revokes a submission as docs/operations.md says: an account with the right to records, through a port-forward.
func revoke(t *testing.T, h *house.House, uid string) {
	t.Helper()
	token := auditor(t, h)
	port := forward(t, h)
	url := fmt.Sprintf("http://127.0.0.1:%d%s/submission/%s", port, wire.PathAdminRecords, uid)
	house.Eventually(t, "the submission to be revoked", func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodPatch, url, strings.NewReader(`{"revoked": true}`))
		if err != nil {
			return err
		}
		req.Header.Set("Authorization", "Bearer "+token)
		req.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		defer func() { _ = resp.Body.Close() }()
		body, err := io.ReadAll(resp.Body)
		if resp.StatusCode != http.StatusOK {
			return errors.Join(fmt.Errorf("status %d: %s", resp.StatusCode, body), err)
		}
		return nil
	})
}

// auditor makes an account with the right to records, once, and returns a token of it for the admins' listener.
func auditor(t *testing.T, h *house.House) string {
	t.Helper()
	ctx, name := t.Context(), metav1.ObjectMeta{Name: "auditor"}
	_, err := h.Admin.CoreV1().ServiceAccounts("default").Create(ctx, &corev1.ServiceAccount{ObjectMeta: name}, metav1.CreateOptions{})
	must(t, err)
	_, err = h.Admin.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: name, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{wire.AdminGroup}, Resources: []string{"records"}, Verbs: []string{"get", "list", "patch"}},
	}}, metav1.CreateOptions{})
	must(t, err)
	_, err = h.Admin.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: name, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name.Name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "default", Name: name.Name}},
	}, metav1.CreateOptions{})
	must(t, err)
	made, err := h.Admin.CoreV1().ServiceAccounts("default").CreateToken(ctx, name.Name, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{Audiences: []string{wire.AudienceAdmin}},
	}, metav1.CreateOptions{})
	must(t, err)
	return made.Status.Token
}

// forward forwards a port of this machine to the admins' listener until the test ends, and returns the port.
func forward(t *testing.T, h *house.House) uint16 {
	t.Helper()
	pod := exchangePod(t, h)
	kubectl := exec.CommandContext(t.Context(), h.Cluster.ControlPlane().Kubectl(), "--kubeconfig="+h.Cluster.Kubeconfig(),
		"port-forward", "-n", pod.Namespace, "pod/"+pod.Name, fmt.Sprintf(":%d", adminPort))
	said, err := kubectl.StdoutPipe()
	must(t, err)
	must(t, kubectl.Start())
	t.Cleanup(func() { _ = kubectl.Process.Kill(); _ = kubectl.Wait() })
	line, err := bufio.NewReader(said).ReadString('\n')
	var port uint16
	if _, scan := fmt.Sscanf(line, "Forwarding from 127.0.0.1:%d", &port); scan != nil {
		t.Fatalf("port-forward said %q: %v", line, err)
	}
	return port
}

// exchangePod is the exchange's running pod.
func exchangePod(t *testing.T, h *house.House) *corev1.Pod {
	t.Helper()
	var found *corev1.Pod
	house.Eventually(t, "the exchange to be ready", func(ctx context.Context) error {
		list, err := h.Admin.CoreV1().Pods(house.Namespace).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/component=exchange"})
		if err != nil {
			return err
		}
		for i, p := range list.Items {
			if house.IsReady(&p) && p.DeletionTimestamp == nil {
				found = &list.Items[i]
				return nil
			}
		}
		return fmt.Errorf("none of its %d pods is ready", len(list.Items))
	})
	return found
}
