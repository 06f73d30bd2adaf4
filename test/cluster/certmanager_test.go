//go:build unix

package cluster_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lanyard-k8s/lanyard/test/cluster"
)

// authority is a chain as the chart makes it: an issuer that signs itself, a CA, an issuer of that CA, a certificate; and a
// webhook configuration that wants the CA.
const authority = `
apiVersion: cert-manager.io/v1
kind: Issuer
metadata: {name: self, namespace: default}
spec: {selfSigned: {}}
---
apiVersion: cert-manager.io/v1
kind: Certificate
metadata: {name: ca, namespace: default}
spec: {isCA: true, commonName: ca, secretName: ca, privateKey: {algorithm: ECDSA}, issuerRef: {name: self}}
---
apiVersion: cert-manager.io/v1
kind: Issuer
metadata: {name: ca, namespace: default}
spec: {ca: {secretName: ca}}
---
apiVersion: cert-manager.io/v1
kind: Certificate
metadata: {name: leaf, namespace: default}
spec: {dnsNames: [hook.default.svc], secretName: leaf, privateKey: {algorithm: ECDSA}, issuerRef: {name: ca}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: wants-a-ca, annotations: {cert-manager.io/inject-ca-from: default/ca}}
webhooks:
- name: hook.example.com
  clientConfig: {service: {name: hook, namespace: default}}
  admissionReviewVersions: [v1]
  sideEffects: None
`

func TestStartCertManager(t *testing.T) {
	t.Parallel()
	cp := start(t, newBase(t))
	cm, err := cluster.StartCertManager(t.Context(), cp)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cm.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	file := filepath.Join(t.TempDir(), "authority.yaml")
	if err := os.WriteFile(file, []byte(authority), 0o600); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	kubectl(t, cp, "apply", "-f", file)
	kubectl(t, cp, "wait", "--for=condition=Ready", "--timeout=4m", "certificate/leaf")
	t.Logf("the certificate was issued after %s", time.Since(begin))
	kubectl(t, cp, "wait", "--for=jsonpath={.webhooks[0].clientConfig.caBundle}", "--timeout=4m", "validatingwebhookconfiguration/wants-a-ca")
	ca := kubectl(t, cp, "get", "secret", "ca", "-o", `jsonpath={.data.tls\.crt}`)
	injected := kubectl(t, cp, "get", "validatingwebhookconfiguration", "wants-a-ca", "-o", "jsonpath={.webhooks[0].clientConfig.caBundle}")
	if ca == "" || injected != ca {
		t.Errorf("the injected CA is %q, the CA's Secret has %q", injected, ca)
	}
}

func kubectl(t *testing.T, cp *cluster.ControlPlane, args ...string) string {
	t.Helper()
	kubeconfig, err := cp.Kubeconfig(cluster.Admin)
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), cp.Kubectl(), append([]string{"--kubeconfig", kubeconfig}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("kubectl %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}
