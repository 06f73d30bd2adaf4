//go:build unix

package house

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
)

// adminPort is where the exchange's pod answers admins, on its own loopback.
const adminPort = 8444

// Revoke revokes a submission as docs/operations.md says: an account with the right to records, through a port-forward to a pod of the
// exchange. When it returns the exchange has said that it is done.
func (h *House) Revoke(t *testing.T, exchange *corev1.Pod, uid string) {
	t.Helper()
	token := h.auditor(t)
	url := fmt.Sprintf("http://127.0.0.1:%d%s/submission/%s", h.Forward(t, exchange, adminPort), wire.PathAdminRecords, uid)
	Eventually(t, "the submission to be revoked", func(ctx context.Context) error {
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

// auditor makes an account with the right to records, if there is none, and returns a token of it for the admins' listener.
func (h *House) auditor(t *testing.T) string {
	t.Helper()
	ctx, name := t.Context(), metav1.ObjectMeta{Name: "auditor"}
	_, account := h.Admin.CoreV1().ServiceAccounts("default").Create(ctx, &corev1.ServiceAccount{ObjectMeta: name}, metav1.CreateOptions{})
	_, role := h.Admin.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: name, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{wire.AdminGroup}, Resources: []string{"records"}, Verbs: []string{"get", "list", "patch"}},
	}}, metav1.CreateOptions{})
	_, binding := h.Admin.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: name, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name.Name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "default", Name: name.Name}},
	}, metav1.CreateOptions{})
	if err := errors.Join(ignoreExisting(account), ignoreExisting(role), ignoreExisting(binding)); err != nil {
		t.Fatalf("making the auditor: %v", err)
	}
	made, err := h.Admin.CoreV1().ServiceAccounts("default").CreateToken(ctx, name.Name, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{Audiences: []string{wire.AudienceAdmin}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("making the auditor's token: %v", err)
	}
	return made.Status.Token
}

// Forward forwards a port of this machine's loopback to one of a pod until the test ends, and returns it.
func (h *House) Forward(t *testing.T, pod *corev1.Pod, port int) uint16 {
	t.Helper()
	kubectl := exec.CommandContext(t.Context(), h.Cluster.ControlPlane().Kubectl(), "--kubeconfig="+h.Cluster.Kubeconfig(),
		"port-forward", "-n", pod.Namespace, "pod/"+pod.Name, fmt.Sprintf(":%d", port))
	said, err := kubectl.StdoutPipe()
	if err == nil {
		err = kubectl.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = kubectl.Process.Kill(); _ = kubectl.Wait() })
	line, err := bufio.NewReader(said).ReadString('\n')
	var local uint16
	if _, scan := fmt.Sscanf(line, "Forwarding from 127.0.0.1:%d", &local); scan != nil {
		t.Fatalf("port-forward said %q: %v", line, err)
	}
	return local
}
