//go:build linux

package exchange

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/certs"
	"github.com/lanyard-k8s/lanyard/test/cluster/process"
	"github.com/lanyard-k8s/lanyard/test/timing"
)

// callout asks whether an access token may pass.
func (h *house) callout(token string) answer {
	h.t.Helper()
	req, err := http.NewRequestWithContext(h.t.Context(), http.MethodGet, h.server.URL+wire.PathAuthenticate, nil)
	must(h.t, err)
	req.Header.Set("Authorization", "Bearer "+token)
	return send(h.t, h.server.Client(), req)
}

// running is the program as a process of its own.
type running struct {
	base, admin, metrics string
	client               *http.Client
	process              *process.Process
}

// start runs the program on the house's database, which it takes over, with its keys in a Secret and settings added to the least.
func (h *house) start(more string) *running {
	h.t.Helper()
	dir := h.t.TempDir()
	pair, err := certs.SelfSigned(time.Now(), "127.0.0.1")
	must(h.t, err)
	must(h.t, os.Mkdir(dir+"/tls", 0o700))
	must(h.t, pair.Write(dir+"/tls"))
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pair.CA)
	var at [3]int
	for i := range at {
		at[i], err = h.Port()
		must(h.t, err)
	}
	r := &running{
		base: fmt.Sprintf("https://127.0.0.1:%d", at[0]), admin: fmt.Sprintf("http://127.0.0.1:%d", at[1]), metrics: fmt.Sprintf("http://127.0.0.1:%d", at[2]),
		client: &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}},
	}
	h.t.Cleanup(r.client.CloseIdleConnections)
	config := fmt.Sprintf("issuer: %s\nkeys: {secret: %s/%s}\nstore: {directory: %s}\n%s\n", r.base, system, keySecret, h.moved(), more)
	must(h.t, os.WriteFile(dir+"/exchange.yaml", []byte(config), 0o600))
	r.process, err = h.StartProcess("exchange-"+h.namespace, h.program, "--config", dir+"/exchange.yaml", "--kubeconfig", h.kubeconfig, "--tls-cert-dir", dir+"/tls",
		"--listen", r.base[len("https://"):], "--admin-listen", r.admin[len("http://"):], "--metrics-listen", r.metrics[len("http://"):], "--drain-delay", "0s", "--log-level", "debug")
	must(h.t, err)
	h.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := r.process.Stop(ctx, 25*time.Second); err != nil {
			h.t.Errorf("stop: %v", err)
		}
		log, _ := os.ReadFile(r.process.Log())
		if h.t.Failed() {
			h.t.Logf("the end of the exchange's log:\n%s", log[max(0, len(log)-4000):])
		}
		if strings.Contains(string(log), "eyJhbGciOi") || strings.Contains(string(log), "PRIVATE KEY") {
			h.t.Error("a token or a key is in the log")
		}
	})
	timing.Within(h.t, 2*time.Minute, "the exchange is ready: "+r.process.Log(), func() bool {
		return r.page("/readyz") == "ready\n"
	})
	return r
}

// moved closes the test's database, so that the program can open it.
func (h *house) moved() string {
	h.t.Helper()
	must(h.t, h.store.Close())
	return h.directory
}

// TestAPlainClient discovers, exchanges, verifies and calls, with nothing of this project's code: HTTP, JSON and P-256.
func TestAPlainClient(t *testing.T) {
	h := shared.house(t)
	h.secret()
	pod := h.pod("train")
	h.delegated(pod)
	r := h.start("")
	oidc, _ := r.get(t, "/apis/auth/discovery").body["oidc"].(map[string]any)
	endpoint, _ := oidc["workload_token_endpoint"].(string)
	clientID, _ := oidc["workload_client_id"].(string)
	if !strings.HasPrefix(endpoint, r.base) {
		t.Fatalf("discovery says %v", oidc)
	}
	a := post(t, r.client, endpoint, clientID, h.subject(pod))
	if a.status != 200 || a.body["token_type"] != "Bearer" {
		t.Fatalf("got %d %v", a.status, a.body)
	}
	meta := r.get(t, "/.well-known/oauth-authorization-server")
	uri, _ := meta.body["jwks_uri"].(string)
	claims := verified(t, r.get(t, strings.TrimPrefix(uri, r.base)).body, a.token())
	if claims["sub"] != submitter || fmt.Sprint(claims["act"]) != "map[sub:"+h.username()+"]" || claims["aud"] != oidc["workload_audience"] || claims["iss"] != meta.body["issuer"] {
		t.Errorf("claims %v", claims)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.base+"/apis/auth/authenticate/v1/models", nil)
	must(t, err)
	req.Header.Set("Authorization", "Bearer "+a.token())
	req.Header.Set("X-NMP-Principal-On-Behalf-Of", "mallory")
	if c := send(t, r.client, req); c.status != 200 || c.header.Get("X-NMP-Principal-On-Behalf-Of") != submitter || c.header.Get("X-NMP-Principal-Id") != h.username() {
		t.Errorf("the callout: %d %v", c.status, c.header)
	}
	h.adminRevokes(r, pod, a.token())
}

// page is a page of the metrics listener; empty if there is none.
func (r *running) page(path string) string {
	resp, err := http.Get(r.metrics + path)
	if err != nil {
		return ""
	}
	defer func() { _ = resp.Body.Close() }()
	body, _ := io.ReadAll(resp.Body)
	return string(body)
}

func (r *running) get(t *testing.T, path string) answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.base+path, nil)
	must(t, err)
	return send(t, r.client, req)
}

// verified checks an ES256 signature by hand and returns the claims.
func verified(t *testing.T, set map[string]any, token string) map[string]any {
	t.Helper()
	parts := strings.Split(token, ".")
	decode := func(s any) []byte {
		b, err := base64.RawURLEncoding.DecodeString(fmt.Sprint(s))
		must(t, err)
		return b
	}
	var header, claims map[string]any
	must(t, json.Unmarshal(decode(parts[0]), &header))
	must(t, json.Unmarshal(decode(parts[1]), &claims))
	list, _ := set["keys"].([]any)
	for _, entry := range list {
		k, _ := entry.(map[string]any)
		if k["kid"] != header["kid"] {
			continue
		}
		key, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), slices.Concat([]byte{4}, decode(k["x"]), decode(k["y"])))
		must(t, err)
		sum, sig := sha256.Sum256([]byte(parts[0]+"."+parts[1])), decode(parts[2])
		if len(sig) == 64 && ecdsa.Verify(key, sum[:], new(big.Int).SetBytes(sig[:32]), new(big.Int).SetBytes(sig[32:])) {
			return claims
		}
	}
	t.Fatalf("no key of the set verifies the token: %v", header)
	return nil
}

// secret makes the Secret of the keys as the chart does: empty.
func (h *house) secret() {
	h.t.Helper()
	api := h.Admin.CoreV1().Secrets(system)
	_, err := api.Create(h.t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: keySecret}}, metav1.CreateOptions{})
	must(h.t, err)
	h.t.Cleanup(func() { _ = api.Delete(context.Background(), keySecret, metav1.DeleteOptions{}) })
}

// adminRevokes is off-boarding with a real token and real rights.
func (h *house) adminRevokes(r *running, pod *corev1.Pod, access string) {
	h.t.Helper()
	ask := func(method, path, token, body string) answer {
		req, err := http.NewRequestWithContext(h.t.Context(), method, r.admin+path, strings.NewReader(body))
		must(h.t, err)
		req.Header.Set("Authorization", "Bearer "+token)
		req.Header.Set("Content-Type", "application/merge-patch+json")
		return send(h.t, http.DefaultClient, req)
	}
	token := h.token(h.t, system, "default", nil, wire.AudienceAdmin)
	records := wire.PathAdminRecords + "/submission"
	if a := ask("GET", records, h.subject(pod), ""); a.status != 401 {
		h.t.Errorf("a job's token at the admins' door: %d", a.status)
	}
	if a := ask("GET", records, token, ""); a.status != 403 {
		h.t.Errorf("without the right: %d", a.status)
	}
	h.grant()
	timing.Within(h.t, 2*time.Minute, "the right is there", func() bool { return ask("GET", records, token, "").status == 200 })
	if a := ask("PATCH", records+"?submitter="+submitter, token, `{"revoked": true}`); a.status != 200 || a.body["rows_revoked"] != 1.0 {
		h.t.Errorf("off-boarding: %d %v", a.status, a.body)
	}
	if a := post(h.t, r.client, r.base+wire.PathToken, wire.DefaultJobAudience, h.subject(pod)); a.status != 400 {
		h.t.Errorf("an exchange afterwards: %d %v", a.status, a.body)
	}
	req, err := http.NewRequestWithContext(h.t.Context(), http.MethodGet, r.base+wire.PathAuthenticate, nil)
	must(h.t, err)
	req.Header.Set("Authorization", "Bearer "+access)
	if a := send(h.t, r.client, req); a.status != 401 {
		h.t.Errorf("a callout afterwards: %d", a.status)
	}
}

// grant lets the system's default account administer records, by the group of its namespace.
func (h *house) grant() {
	h.t.Helper()
	rbac := h.Admin.RbacV1()
	_, err := rbac.ClusterRoles().Create(h.t.Context(), &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "records"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{wire.AdminGroup}, Resources: []string{wire.ResourceRecords}, Verbs: []string{"get", "list", "patch"}}},
	}, metav1.CreateOptions{})
	must(h.t, err)
	_, err = rbac.ClusterRoleBindings().Create(h.t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "records"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: "system:serviceaccounts:" + system}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "records"},
	}, metav1.CreateOptions{})
	must(h.t, err)
}
