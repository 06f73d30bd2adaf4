package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"
)

func TestSweep(t *testing.T) {
	t.Parallel()
	meta := func(namespace, name string, labels map[string]string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels}
	}
	client := fake.NewClientset(
		&corev1.Secret{ObjectMeta: meta("nvsentinel", "lanyard-ca", nil)},
		&corev1.ConfigMap{ObjectMeta: meta("team-a", "lanyard-ca", map[string]string{partOf: lanyard})},
		&corev1.ConfigMap{ObjectMeta: meta("team-b", "lanyard-ca", nil)},
		&coordinationv1.Lease{ObjectMeta: meta("nvsentinel", "lanyard-exchange", nil)},
	)
	var out bytes.Buffer
	err := sweep(t.Context(), client, []string{
		"Secret/nvsentinel/lanyard-ca", "Secret/nvsentinel/lanyard-webhook-tls", "ConfigMap/team-a/lanyard-ca", "ConfigMap/team-b/lanyard-ca",
		"ConfigMap/team-c/lanyard-ca", "Lease/nvsentinel/lanyard-exchange",
	}, &out)
	if err != nil {
		t.Fatal(err)
	}
	want := `Secret/nvsentinel/lanyard-ca deleted
Secret/nvsentinel/lanyard-webhook-tls already gone
ConfigMap/team-a/lanyard-ca deleted
ConfigMap/team-b/lanyard-ca is somebody else's and stays
ConfigMap/team-c/lanyard-ca already gone
Lease/nvsentinel/lanyard-exchange deleted
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, a := range client.Actions() {
		if a.GetResource().Resource == "secrets" && a.GetVerb() != "delete" {
			t.Errorf("a Secret was asked for by %s; its keys are nobody's business", a.GetVerb())
		}
	}
	if _, err := client.CoreV1().ConfigMaps("team-b").Get(t.Context(), "lanyard-ca", metav1.GetOptions{}); err != nil {
		t.Errorf("somebody else's ConfigMap is gone: %v", err)
	}
}

func TestSweepRefuses(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ object, want string }{
		"a name without its kind": {"nvsentinel/lanyard-ca", "it must be named KIND/NAMESPACE/NAME"},
		"any other kind":          {"Pod/nvsentinel/x", "only a Secret, a ConfigMap or a Lease can be swept"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := fake.NewClientset()
			err := sweep(t.Context(), client, []string{tc.object}, &bytes.Buffer{})
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("sweep(%s): %v, want something about %q", tc.object, err, tc.want)
			}
			if actions := client.Actions(); len(actions) != 0 {
				t.Errorf("it asked for something all the same: %v", k8stesting.ActionImpl{Verb: actions[0].GetVerb()})
			}
		})
	}
}
