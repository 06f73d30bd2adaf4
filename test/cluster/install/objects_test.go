//go:build unix

package install

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const rendered = `
# a comment of the chart's
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: webhook}
---
apiVersion: cert-manager.io/v1
kind: Certificate
metadata: {name: tls}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: lanyard-webhook}
data: {webhook.yaml: "admission: {}"}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: binding}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: policy}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: validating}
webhooks:
- name: a
  clientConfig: {service: {name: webhook, namespace: x, path: /validate/a}}
`

func TestObjects(t *testing.T) {
	t.Parallel()
	objects, err := decode([]byte(rendered))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string][]string{
		"policies": names(objects.Policies()), "webhooks": names(objects.Webhooks()), "others": names(objects.others()),
	}
	want := map[string][]string{"policies": {"policy", "binding"}, "webhooks": {"validating"}, "others": {"lanyard-webhook"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("sorted into (-want +got):\n%s", diff)
	}
	if config, err := objects.WebhookConfig(); err != nil || config != "admission: {}" {
		t.Errorf("the configuration is %q, %v", config, err)
	}
}

func TestRedirect(t *testing.T) {
	t.Parallel()
	objects, err := decode([]byte(rendered))
	if err != nil {
		t.Fatal(err)
	}
	if err := objects.Redirect("https://127.0.0.1:1234", []byte("ca")); err != nil {
		t.Fatal(err)
	}
	entries, _, err := unstructured.NestedSlice(objects.Webhooks()[0].Object, "webhooks")
	if err != nil {
		t.Fatal(err)
	}
	want := []any{map[string]any{
		"name": "a", "clientConfig": map[string]any{"url": "https://127.0.0.1:1234/validate/a", "caBundle": "Y2E="},
	}}
	if diff := cmp.Diff(want, entries); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
	if err := objects.Redirect("https://127.0.0.1:1234", nil); err == nil || !strings.Contains(err.Error(), "entry a has no clientConfig.service.path") {
		t.Errorf("an entry without a Service gave %v", err)
	}
}

func names(objects Objects) []string {
	var out []string
	for _, u := range objects {
		out = append(out, u.GetName())
	}
	return out
}
