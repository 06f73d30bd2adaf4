//go:build unix

package install

import (
	"context"
	"crypto"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lanyard-k8s/lanyard/test/e2e/house"
)

// TestReplacedCA replaces the CA's key as docs/upgrade.md says for one that may have leaked, while a job exchanges: every server has a
// certificate of the new CA in the end, pods and jobs are admitted, and the job gets its tokens again, without having been refused.
func TestReplacedCA(t *testing.T) {
	h := home.Enter(t)
	mustInstall(t, h, everything)
	job := h.PodOfJob(t, h.MustSubmit(t, h.MustClient(t, house.Alice), house.Managed, house.Job("replaced", "job", "--mode=http", "--again=500ms", "--patience=2s")))
	granted := func() (n int) {
		for _, i := range house.Lines[identity](t, h.Log(t, house.Managed, job.Name), nil) {
			if i.Subject == house.Alice {
				n++
			}
		}
		return n
	}
	h.AwaitPod(t, house.Managed, job.Name, "Running")
	house.Eventually(t, "the job's first token", func(context.Context) error { return atLeast(granted(), 1) })
	watchers := watchCertificates(t, h)
	ctx, stop := context.WithCancel(t.Context())
	l := &load{h: h, alice: h.MustClient(t, house.Alice)}
	t.Cleanup(func() { stop(); l.wait.Wait() })
	l.wait.Go(func() { l.admit(ctx) })
	house.Eventually(t, "calls of admission to succeed", func(context.Context) error { return atLeast(l.inARow(), 8) })
	old, restarts := mustCertificate(t, h, "lanyard-ca"), ourPods(t, h)

	began := time.Now()
	for _, step := range [][]string{
		{"delete", "secret", "lanyard-ca"},
		{"wait", "certificate/lanyard-ca", "--for=condition=Ready", "--timeout=5m"},
		{"delete", "secret", "lanyard-webhook-tls", "lanyard-exchange-tls", "lanyard-connector-tls", "--ignore-not-found"},
	} {
		if out, err := h.Cluster.Kubectl(t.Context(), append([]string{"-n", house.Namespace}, step...)...); err != nil {
			t.Fatalf("%v: %v: %s", step, err, out)
		}
	}
	fresh := awaitNew(t, h, "lanyard-ca", old)
	if old.PublicKey.(interface{ Equal(x crypto.PublicKey) bool }).Equal(fresh.PublicKey) {
		t.Fatal("the CA has its old key")
	}
	trusted(t, h, ca(t, h))
	for name := range servers() {
		// The watcher trusts the CA that its pod's copy of ConfigMap lanyard-ca holds at each handshake, as jobs do.
		house.Within(t, 2*patience, name+" to be signed by the new CA, and to be trusted", func(ctx context.Context) error {
			now, err := certificate(ctx, h, name)
			if err == nil {
				err = now.CheckSignatureFrom(fresh)
			}
			if err != nil {
				return err
			}
			return presents(t, h, name, watchers[name], now.SerialNumber.String())
		})
	}
	t.Logf("every server had a certificate of the new CA, and those who call them trusted it, %s after the old one was deleted", time.Since(began).Round(100*time.Millisecond))
	// cert-manager's injector adds the new CA to what is trusted, so that no call fails. The old one is trusted until it is taken out.
	distrust(t, h, ca(t, h))
	house.Eventually(t, "forty calls of admission in a row to succeed", func(context.Context) error { return atLeast(l.inARow(), 40) })
	stop()
	l.wait.Wait()
	t.Logf("%d of %d calls of admission have failed until %s after the CA was deleted:\n%s", len(l.faults), l.calls, time.Since(began).Round(100*time.Millisecond), first(l.faults))
	for _, fault := range l.faults {
		if !strings.Contains(fault, "failed calling webhook") {
			t.Errorf("a call has failed for another reason than that the webhook is not trusted: %s", fault)
		}
	}
	before := granted()
	house.Eventually(t, "the job to get tokens again", func(context.Context) error { return atLeast(granted(), before+3) })
	for n, i := range house.Lines[identity](t, h.Log(t, house.Managed, job.Name), nil) {
		if i.Subject != house.Alice && strings.Contains(i.Error, "status 4") {
			t.Errorf("line %d of the job, which nobody has revoked: %+v", n, i)
		}
	}
	for pod, was := range ourPods(t, h) {
		if before, ok := restarts[pod]; !ok || before != was {
			t.Errorf("pod %s is new or was restarted (%d times, %d before)", pod, was, before)
		}
	}
	examined(t, h)
}

// patience is what the kubelet may take to renew a pod's copy of a ConfigMap, and more.
const patience = 5 * time.Minute

// distrust takes every CA out of the webhook configurations, as docs/upgrade.md says, and waits until the injector has put in this one
// and no other.
func distrust(t *testing.T, h *house.House, ca string) {
	t.Helper()
	for _, kind := range []string{"mutatingwebhookconfiguration", "validatingwebhookconfiguration"} {
		said, err := h.Cluster.Kubectl(t.Context(), "get", kind, "lanyard", "-o", "json")
		if err != nil {
			t.Fatal(err)
		}
		var configuration map[string]any
		if err := json.Unmarshal([]byte(said), &configuration); err != nil {
			t.Fatal(err)
		}
		for _, webhook := range configuration["webhooks"].([]any) {
			delete(webhook.(map[string]any)["clientConfig"].(map[string]any), "caBundle")
		}
		without, err := json.Marshal(configuration)
		if err != nil {
			t.Fatal(err)
		}
		if out, err := h.Cluster.KubectlInput(t.Context(), string(without), "replace", "-f", "-"); err != nil {
			t.Fatalf("taking the CAs out of the %s: %v: %s", kind, err, out)
		}
		house.Eventually(t, "the "+kind+" to trust the new CA and no other", func(ctx context.Context) error {
			bundles, err := h.Cluster.Kubectl(ctx, "get", kind, "lanyard", "-o", "jsonpath={range .webhooks[*]}{.clientConfig.caBundle}{\"\\n\"}{end}")
			if err != nil {
				return err
			}
			for bundle := range strings.Lines(bundles) {
				pem, err := base64.StdEncoding.Strict().DecodeString(strings.TrimSpace(bundle))
				if err != nil || strings.TrimSpace(string(pem)) != ca {
					return fmt.Errorf("one trusts %d certificates (%v)", strings.Count(string(pem), "BEGIN CERTIFICATE"), err)
				}
			}
			return nil
		})
	}
}
