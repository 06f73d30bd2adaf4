//go:build linux

package exchange

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lanyard-k8s/lanyard/test/timing"
)

// TestAStartThatCannotBe: the program ends with one line that says what is missing.
func TestAStartThatCannotBe(t *testing.T) {
	weak, err := rsa.GenerateKey(rand.Reader, 1024)
	must(t, err)
	curve, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	must(t, err)
	tests := map[string]struct {
		secret map[string][]byte // nil: there is none
		want   string
	}{
		"no Secret":           {nil, `it does not exist; the chart makes an empty one`},
		"a key that is none":  {map[string][]byte{"k.pem": []byte("garbage")}, "the signing key cannot be read"},
		"a ring that is none": {map[string][]byte{"ring.json": []byte("garbage")}, "ring cannot be read"},
		"a ring without key":  {map[string][]byte{"ring.json": ringOf("k")}, `a signing key is missing; put its .pem back, or delete ring.json and every .pem, and new keys are made: ring.json names "k"`},
		"a weak key":          {map[string][]byte{"ring.json": ringOf("k"), "k.pem": pemOf(t, weak)}, "k.pem: load the signing key: the signing key is too weak"},
		"a key of a kind that signs nothing": {
			map[string][]byte{"ring.json": ringOf("k"), "k.pem": pemOf(t, curve)}, "k.pem: load the signing key: the signing key is of the wrong kind",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			h := shared.house(t)
			if tc.secret != nil {
				h.secret()
				h.fill(tc.secret)
			}
			config := fmt.Sprintf("issuer: https://x\nkeys: {secret: %s/%s}\nstore: {directory: %s}\n", system, keySecret, h.moved())
			file := t.TempDir() + "/exchange.yaml"
			must(t, os.WriteFile(file, []byte(config), 0o600))
			out, err := exec.CommandContext(t.Context(), h.program, "--config", file, "--kubeconfig", h.kubeconfig, "--listen", "127.0.0.1:0",
				"--admin-listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0").CombinedOutput()
			lines := strings.Split(strings.TrimSpace(string(out)), "\n")
			if err == nil || !strings.HasPrefix(lines[len(lines)-1], "exchange: ") || !strings.Contains(lines[len(lines)-1], tc.want) {
				t.Errorf("got %v: %s", err, out)
			}
			if n := strings.Count(string(out), "exchange: "); n != 1 {
				t.Errorf("%d lines for people, want one: %s", n, out)
			}
			if strings.Contains(string(out), "garbage") || strings.Contains(string(out), "PRIVATE") {
				t.Error("the key's content is shown")
			}
		})
	}
}

// ringOf is a ring of one key that signs since an hour.
func ringOf(id string) []byte {
	at := time.Now().Add(-time.Hour).Format(time.RFC3339)
	return fmt.Appendf(nil, `{"keys":[{"kid":%q,"publishedAt":%q,"signsAt":%q}]}`, id, at, at)
}

// pemOf is a private key that no ring should have.
func pemOf(t *testing.T, key any) []byte {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	must(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

// fill puts data into the Secret of the keys.
func (h *house) fill(data map[string][]byte) {
	h.t.Helper()
	_, err := h.Admin.CoreV1().Secrets(system).Update(h.t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: keySecret}, Data: data,
	}, metav1.UpdateOptions{})
	must(h.t, err)
}

// TestATermEndsAHeldRequest: a program that is told to stop answers those who wait, and ends with 0.
func TestATermEndsAHeldRequest(t *testing.T) {
	h := shared.house(t)
	h.secret()
	pod := h.pod("train")
	token := h.subject(pod)
	r := h.start("")
	got := make(chan answer, 1)
	go func() { got <- post(t, r.client, r.base+"/apis/auth/token", "nemo-platform", token) }()
	timing.Within(t, 10*time.Second, "the request is held", func() bool { return strings.Contains(r.page("/metrics"), "lanyard_exchange_waiting 1") })
	start := time.Now()
	must(t, r.process.Terminate())
	if a := <-got; a.status != 503 || a.header.Get("Retry-After") == "" || time.Since(start) > 4*time.Second {
		t.Errorf("got %d %v after %s", a.status, a.body, time.Since(start))
	}
}

// TestTheReconcilerIsStopped: nobody judges pods, so a good token is answered after the hold with 503 and when to come again, time after time,
// and with nothing else.
func TestTheReconcilerIsStopped(t *testing.T) {
	h := shared.house(t)
	h.secret()
	pod := h.pod("train")
	token := h.subject(pod)
	r := h.start("limits: {holdMilliseconds: 300}")
	for range 3 {
		a := post(t, r.client, r.base+"/apis/auth/token", "nemo-platform", token)
		seconds, err := strconv.Atoi(a.header.Get("Retry-After"))
		if a.status != 503 || a.body["error"] != "temporarily_unavailable" || err != nil || seconds < 1 || seconds > 60 {
			t.Errorf("got %d %v, Retry-After %q", a.status, a.body, a.header.Get("Retry-After"))
		}
	}
	if !strings.Contains(r.page("/metrics"), `lanyard_exchange_requests_total{outcome="row_absent"} 3`) {
		t.Error("it is not counted as a row that is absent")
	}
}
