//go:build unix

package integration

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lanyard-k8s/lanyard/certs/certmanager"
	"github.com/lanyard-k8s/lanyard/test/cluster"
	"github.com/lanyard-k8s/lanyard/test/cluster/program"
)

// TestCertManagerIssuesAndInjects asks a real cert-manager for the chain, waits for it and for the injection of the
// authority, and then for what cannot be: the errors say what is missing. It has a control plane of its own, since
// cert-manager's resource definitions would stay on the shared one.
func TestCertManagerIssuesAndInjects(t *testing.T) {
	t.Parallel()
	cp := certManagerPlane(t)
	c, namespace := certificateClient(t, cp), metav1.NamespaceDefault
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()

	const hooks = "lanyard-certificates-test"
	create(t, c, webhookConfigurations(hooks, namespace)...)
	create(t, c, certmanager.Objects(namespace, certmanager.Leaf{Name: certmanager.WebhookTLS, Service: "lanyard-webhook"})...)
	if err := certmanager.WaitReady(ctx, c, namespace, certmanager.Authority, certmanager.WebhookTLS); err != nil {
		t.Fatal(err)
	}
	var secret corev1.Secret
	if err := c.Get(ctx, types.NamespacedName{Namespace: namespace, Name: certmanager.Authority}, &secret); err != nil {
		t.Fatal(err)
	}
	ca := secret.Data[corev1.TLSCertKey]
	if err := certmanager.WaitInjected(ctx, c, hooks, ca); err != nil {
		t.Fatal(err)
	}

	orphan := certmanager.Objects(namespace, certmanager.Leaf{Name: "orphan", Service: "orphan"})[3].(*cmv1.Certificate)
	orphan.Spec.IssuerRef.Name = "no-such-issuer"
	create(t, c, orphan)
	short, cancelShort := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancelShort()
	err := certmanager.WaitReady(short, c, namespace, "orphan")
	if want := "certificate " + namespace + "/orphan is not ready: "; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want an error that says %q", err, want)
	}
}

func certManagerPlane(t *testing.T) *cluster.ControlPlane {
	t.Helper()
	cp, err := cluster.Start(t.Context(), cluster.Options{Out: os.Stderr})
	if errors.Is(err, program.ErrNoGo) || errors.Is(err, program.ErrNoModules) {
		t.Skipf("no control plane to test on: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	stop(t, cp.Stop)
	cm, err := cluster.StartCertManager(t.Context(), cp)
	if err != nil {
		t.Fatal(err)
	}
	stop(t, cm.Stop)
	return cp
}

// stop ends something when the test has ended.
func stop(t *testing.T, end func(context.Context) error) {
	t.Helper()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := end(ctx); err != nil {
			t.Error(err)
		}
	})
}

func certificateClient(t *testing.T, cp *cluster.ControlPlane) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := certmanager.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	config, err := cp.Config()
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// webhookConfigurations want the authority and match nothing that exists.
func webhookConfigurations(name, namespace string) []client.Object {
	key, value := certmanager.InjectFrom(namespace)
	meta := metav1.ObjectMeta{Name: name, Annotations: map[string]string{key: value}}
	none, ignore := admissionregistrationv1.SideEffectClassNone, admissionregistrationv1.Ignore
	target := admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{Namespace: namespace, Name: "nobody"}}
	return []client.Object{
		&admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: meta, Webhooks: []admissionregistrationv1.MutatingWebhook{{
			Name: "m.certificates.test", ClientConfig: target, SideEffects: &none, FailurePolicy: &ignore, AdmissionReviewVersions: []string{"v1"},
		}}},
		&admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: meta, Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "v.certificates.test", ClientConfig: target, SideEffects: &none, FailurePolicy: &ignore, AdmissionReviewVersions: []string{"v1"},
		}}},
	}
}

// create makes objects; they go with the control plane.
func create(t *testing.T, c client.Client, objects ...client.Object) {
	t.Helper()
	for _, o := range objects {
		if err := c.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
}
