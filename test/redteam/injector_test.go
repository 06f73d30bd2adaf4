//go:build unix

package redteam

import (
	"context"
	"net/http"
	"testing"

	"github.com/lanyard-k8s/lanyard/test/cluster/injector"
)

// Whether the API server asks an injector again after ours.
const (
	never    = "Never"
	ifNeeded = "IfNeeded"
)

const mutating = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"

// inject registers a webhook for the pods with this label value, before ("aaa-") or after ("zzz-") ours, and waits until
// the API server calls it. A cluster admin does this; the attacker may not.
func (w *world) inject(t *testing.T, order, label, again, patch string) {
	t.Helper()
	i := injector.Start(t, func([]byte) ([]byte, error) { return []byte(patch), nil }) // every pod, whatever it is
	name := order + label
	w.root().do(t.Context(), http.MethodPost, mutating, object{
		"metadata": object{"name": name},
		"webhooks": []any{object{
			"name": "injector.red.example.com", "admissionReviewVersions": []string{"v1"}, "sideEffects": "None", "failurePolicy": "Fail",
			"reinvocationPolicy": again, "clientConfig": object{"url": i.URL, "caBundle": i.CA},
			"objectSelector": object{"matchLabels": object{"inject": label}},
			"rules":          []any{object{"apiGroups": []string{""}, "apiVersions": []string{"v1"}, "operations": []string{"CREATE"}, "resources": []string{"pods"}}},
		}},
	}).accepted(t)
	t.Cleanup(func() { w.root().do(context.Background(), http.MethodDelete, mutating+"/"+name, nil) })
	probe := pod()
	probe.At("metadata", "labels")["inject"] = label
	eventually(t, "the injector is called", func(ctx context.Context) (bool, error) {
		w.root().do(ctx, http.MethodPost, at(plain, "pods")+"?dryRun=All", probe)
		return i.Called(), nil
	})
}
