package certmanager

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/lanyard-k8s/lanyard/certs"
)

func newClient(t *testing.T, objects ...client.Object) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
}

func TestChain(t *testing.T) {
	t.Parallel()
	objects := Objects("lanyard", Leaf{WebhookTLS, "lanyard-webhook"})
	var got []string
	for _, o := range objects {
		got = append(got, o.GetObjectKind().GroupVersionKind().Kind+" "+o.GetNamespace()+"/"+o.GetName())
	}
	want := []string{"Issuer lanyard/lanyard-selfsigned", "Certificate lanyard/lanyard-ca", "Issuer lanyard/lanyard-ca", "Certificate lanyard/lanyard-webhook-tls"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("objects (-want +got):\n%s", diff)
	}
	ca, tls := objects[1].(*cmv1.Certificate).Spec, objects[3].(*cmv1.Certificate).Spec
	if !ca.IsCA || ca.PrivateKey.RotationPolicy != cmv1.RotationPolicyNever || ca.Duration.Hours() != 87600 || ca.RenewBefore.Hours() != 8760 {
		t.Errorf("authority %+v", ca)
	}
	if diff := cmp.Diff([]string{"lanyard-webhook.lanyard.svc", "lanyard-webhook.lanyard.svc.cluster.local"}, tls.DNSNames); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
	if tls.IsCA || tls.Duration.Hours() != 2160 || tls.IssuerRef.Name != Authority {
		t.Errorf("leaf %+v", tls)
	}
}

func certificate(generation int64, conditions ...cmv1.CertificateCondition) *cmv1.Certificate {
	return &cmv1.Certificate{
		ObjectMeta: metav1.ObjectMeta{Namespace: "lanyard", Name: WebhookTLS, Generation: generation},
		Status:     cmv1.CertificateStatus{Conditions: conditions},
	}
}

func TestWaitReadySaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	is := func(status cmmeta.ConditionStatus, generation int64) cmv1.CertificateCondition {
		return cmv1.CertificateCondition{Type: cmv1.CertificateConditionReady, Status: status, ObservedGeneration: generation, Reason: "DoesNotExist", Message: "Issuing certificate as Secret does not exist"}
	}
	tests := map[string]struct {
		objects []client.Object
		want    string // "" is ready
	}{
		"a certificate that is ready":         {[]client.Object{certificate(1, is(cmmeta.ConditionTrue, 1))}, ""},
		"a certificate that is not there":     {nil, `certificate lanyard/lanyard-webhook-tls: `},
		"a certificate nobody has looked at":  {[]client.Object{certificate(1)}, "is cert-manager running?"},
		"a certificate that is not ready yet": {[]client.Object{certificate(1, is(cmmeta.ConditionFalse, 1))}, "certificate lanyard/lanyard-webhook-tls is not ready: DoesNotExist: Issuing certificate as Secret does not exist"},
		"readiness of an older specification": {[]client.Object{certificate(2, is(cmmeta.ConditionTrue, 1))}, "is not ready"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			check(t, tc.want, WaitReady(ctx, newClient(t, tc.objects...), "lanyard", WebhookTLS))
		})
	}
}

// silent answers its first call and none after it, as a client does whose own limiter has run out of time.
type silent struct {
	client.Client
	calls int
}

func (s *silent) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	if s.calls++; s.calls > 1 {
		return errors.New("rate: Wait(n=1) would exceed context deadline")
	}
	return s.Client.Get(ctx, key, o, opts...)
}

func TestWhatWasSeenOutlastsWhatWasNotAnswered(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 3*every)
	defer cancel()
	check(t, "has no Ready condition yet", WaitReady(ctx, &silent{Client: newClient(t, certificate(1))}, "lanyard", WebhookTLS))
}

func TestWaitInjectedSaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	ca := func() []byte {
		a, err := certs.NewAuthority("test", time.Now(), time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		return a.CA()
	}
	ours, theirs := ca(), ca()
	configurations := func(mutating, validating []byte) []client.Object {
		named := metav1.ObjectMeta{Name: "lanyard"}
		return []client.Object{
			&admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: named, Webhooks: []admissionregistrationv1.MutatingWebhook{
				{Name: "job.mutate.lanyard.dev", ClientConfig: admissionregistrationv1.WebhookClientConfig{CABundle: mutating}}}},
			&admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: named, Webhooks: []admissionregistrationv1.ValidatingWebhook{
				{Name: "job.validate.lanyard.dev", ClientConfig: admissionregistrationv1.WebhookClientConfig{CABundle: validating}}}},
		}
	}
	tests := map[string]struct {
		objects []client.Object
		want    string
	}{
		"both injected":                        {configurations(ours, ours), ""},
		"both injected, an old authority left": {configurations(append(append([]byte{}, theirs...), ours...), ours), ""},
		"no configuration":                     {nil, "mutating webhook configuration lanyard: "},
		"nothing injected":                     {configurations(nil, nil), "mutating webhook job.mutate.lanyard.dev: caBundle is empty"},
		"only one injected":                    {configurations(ours, nil), "validating webhook job.validate.lanyard.dev: caBundle is empty"},
		"another authority":                    {configurations(ours, theirs), "validating webhook job.validate.lanyard.dev: caBundle holds another certificate"},
		"no certificate":                       {configurations([]byte("x"), ours), "caBundle: no certificate"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			check(t, tc.want, WaitInjected(ctx, newClient(t, tc.objects...), "lanyard", ours))
		})
	}
	if err := WaitInjected(t.Context(), newClient(t), "lanyard", nil); err == nil {
		t.Error("an authority without a certificate is waited for")
	}
}

func check(t *testing.T, want string, err error) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("got %v", err)
	case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
		t.Errorf("got %v, want one that says %q", err, want)
	}
}
