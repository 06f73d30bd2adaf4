//go:build unix

package integration

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"errors"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lanyard-k8s/lanyard/doctor"
	"github.com/lanyard-k8s/lanyard/policy"
	"github.com/lanyard-k8s/lanyard/test/cluster"
	"github.com/lanyard-k8s/lanyard/test/cluster/program"
)

// TestDoctor examines the installation, whole and with one thing broken at a time. It changes what all tests share, so it
// does not run in parallel.
func TestDoctor(t *testing.T) {
	serveCertificate(t)
	d := newDoctor(t)

	t.Run("a whole installation fails nothing", func(t *testing.T) {
		found, code := d.run(t, d.admin)
		for _, f := range found {
			t.Logf("%-4s %s: %s: %s", f.Severity, f.Check, f.Subject, f.Message)
		}
		if code != 0 {
			t.Errorf("exit code %d:\n%s", code, failed(found))
		}
	})
	t.Run("somebody without rights is told what could not be read, and nothing passes", func(t *testing.T) {
		found, _ := d.run(t, d.nobody)
		for _, f := range found {
			if f.Severity == doctor.OK && f.Check != doctor.CheckVersion {
				t.Errorf("%s passed unseen: %s", f.Check, f.Message)
			}
		}
	})
	t.Run("a namespace that was labelled late, and is on no list", func(t *testing.T) {
		namespace := labelledLate(t)
		found, _ := d.run(t, d.admin)
		for check, says := range map[doctor.Check]string{
			doctor.CheckCA:     "no RoleBinding lets the exchange keep ConfigMap lanyard-ca here, and it is not there",
			doctor.CheckStamps: "2 in all: batch/cronjobs nightly, batch/jobs train",
		} {
			if !slices.ContainsFunc(found, func(f doctor.Finding) bool {
				return f.Check == check && f.Severity == doctor.Warn && f.Subject == "Namespace/"+namespace && strings.Contains(f.Message, says)
			}) {
				t.Errorf("%s does not warn of %s that %q", check, namespace, says)
			}
		}
	})
	for name, fault := range map[string]struct {
		breaks  func(*testing.T)
		check   doctor.Check
		subject string
	}{
		"a policy is gone": {deletePolicy, doctor.CheckPolicies, "ValidatingAdmissionPolicy/" + policy.TokenRequests},
		"a policy ignores its own failures": {
			func(t *testing.T) {
				editPolicy(t, func(p *admissionregistrationv1.ValidatingAdmissionPolicy) {
					p.Spec.FailurePolicy = new(admissionregistrationv1.Ignore)
				})
			},
			doctor.CheckPolicies, "ValidatingAdmissionPolicy/" + policy.TokenRequests,
		},
		"a policy lets everything pass": {
			func(t *testing.T) {
				editPolicy(t, func(p *admissionregistrationv1.ValidatingAdmissionPolicy) {
					p.Spec.Validations[0].Expression = "true || (" + p.Spec.Validations[0].Expression + ")"
				})
			},
			doctor.CheckPolicies, "ValidatingAdmissionPolicy/" + policy.TokenRequests,
		},
		"a binding only audits": {withoutDeny, doctor.CheckPolicies, "ValidatingAdmissionPolicyBinding/" + policy.TokenRequests},
		"a caBundle is empty": {
			func(t *testing.T) {
				editEntry(t, func(w *admissionregistrationv1.MutatingWebhook) { w.ClientConfig.CABundle = nil })
			},
			doctor.CheckCABundle, "MutatingWebhookConfiguration/lanyard entry job.mutate.lanyard.dev",
		},
		"an entry ignores an absent webhook": {
			func(t *testing.T) {
				editEntry(t, func(w *admissionregistrationv1.MutatingWebhook) {
					w.FailurePolicy = new(admissionregistrationv1.Ignore)
				})
			},
			doctor.CheckWebhooks, "MutatingWebhookConfiguration/lanyard entry job.mutate.lanyard.dev",
		},
		"an entry is narrowed": {
			func(t *testing.T) {
				editEntry(t, func(w *admissionregistrationv1.MutatingWebhook) {
					w.NamespaceSelector.MatchLabels["team"] = "one"
				})
			},
			doctor.CheckWebhooks, "MutatingWebhookConfiguration/lanyard entry job.mutate.lanyard.dev",
		},
	} {
		t.Run(name, func(t *testing.T) {
			fault.breaks(t)
			found, code := d.run(t, d.admin)
			if code != 1 {
				t.Errorf("exit code %d, want 1", code)
			}
			for _, f := range found {
				if f.Severity == doctor.Fail && (f.Check != fault.check || f.Subject != fault.subject) {
					t.Errorf("fails besides: %+v", f)
				}
			}
			if !slices.ContainsFunc(found, func(f doctor.Finding) bool { return f.Severity == doctor.Fail }) {
				t.Errorf("nothing found of %s", fault.subject)
			}
		})
	}
}

// doctorProgram is the command and two people who run it.
type doctorProgram struct{ path, admin, nobody string }

func newDoctor(t *testing.T) doctorProgram {
	t.Helper()
	tree, err := program.Tree()
	if err != nil {
		t.Fatal(err)
	}
	path, err := program.Build(t.Context(), os.Stderr, program.Source{Name: "lanyard", Dir: tree, Package: "./cmd/lanyard"})
	if err != nil {
		t.Fatal(err)
	}
	admin, errAdmin := controlPlane(t).Kubeconfig(cluster.Admin)
	nobody, errNobody := controlPlane(t).Kubeconfig("nobody")
	if err := errors.Join(errAdmin, errNobody); err != nil {
		t.Fatal(err)
	}
	return doctorProgram{path, admin, nobody}
}

// run runs doctor and gives its findings and exit code.
func (d doctorProgram) run(t *testing.T, kubeconfig string) ([]doctor.Finding, int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), d.path, "doctor", "-o", "json", "--kubeconfig", kubeconfig, "-n", installation(t).Namespace())
	var out, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaint
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	var found []doctor.Finding
	if err := json.Unmarshal(out.Bytes(), &found); err != nil {
		t.Fatalf("reading the findings: %v; %s", err, complaint.String())
	}
	return found, cmd.ProcessState.ExitCode()
}

func failed(found []doctor.Finding) string {
	var b strings.Builder
	for _, f := range found {
		if f.Severity == doctor.Fail {
			b.WriteString(string(f.Check) + " " + f.Subject + ": " + f.Message + "\n")
		}
	}
	return b.String()
}

// serveCertificate puts the certificate that the webhook serves where the chart's Secret would hold it, without a key.
func serveCertificate(t *testing.T) {
	t.Helper()
	u, err := url.Parse(webhook(t).URL())
	if err != nil {
		t.Fatal(err)
	}
	conn, err := tls.Dial("tcp", u.Host, &tls.Config{InsecureSkipVerify: true}) // doctor is who verifies
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	var chain []byte
	for _, c := range conn.ConnectionState().PeerCertificates {
		chain = append(chain, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})...)
	}
	secrets := admin(t).CoreV1().Secrets(installation(t).Namespace())
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "lanyard-webhook-tls"}, Data: map[string][]byte{"tls.crt": chain}}
	if _, err := secrets.Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { restore(t, secrets.Delete(context.Background(), secret.Name, metav1.DeleteOptions{})) })
}

// restore reports that something could not be put back.
func restore(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Errorf("putting back what was broken: %v", err)
	}
}
