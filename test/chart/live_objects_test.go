//go:build unix

package chart

import (
	"context"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/lanyard-k8s/lanyard/test/cluster"
)

// TestOldFaultsMayStay makes a Deployment before its namespace is managed: updates that add nothing must pass, or nobody
// could scale it any more.
func TestOldFaultsMayStay(t *testing.T) {
	t.Parallel()
	cp := live(t)
	admin, alice := client(t, cp, cluster.Admin, "system:masters"), client(t, cp, "alice")
	mustCreate(t, admin, "{apiVersion: v1, kind: Namespace, metadata: {name: older}}")
	mustCreate(t, alice, "{apiVersion: apps/v1, kind: Deployment, metadata: {name: d, namespace: older}, spec: {replicas: 0, selector: {matchLabels: {a: b}}, "+
		"template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i, env: [{name: NMP_PRINCIPAL, value: x}]}]}}}}")
	if err := patchFor(t, cp, "older", `{"metadata":{"labels":{"lanyard.dev/jobs":"managed"}}}`); err != nil {
		t.Fatal(err)
	}
	added := `{"spec":{"template":{"spec":{"containers":[{"name":"c","image":"i","env":[{"name":"NMP_PRINCIPAL","value":"x"},{"name":"NMP_ACCESS_TOKEN","value":"x"}]}]}}}}`
	var last error
	err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, 3*time.Minute, true, func(context.Context) (bool, error) {
		last = patch(t, alice, deployments, "older", "d", added)
		return last != nil, nil
	})
	if err != nil {
		t.Fatal("the namespace did not become managed")
	}
	refusedWith(t, last, "env[NMP_ACCESS_TOKEN]: set by the platform")
	if strings.Contains(last.Error(), "NMP_PRINCIPAL") {
		t.Errorf("the old fault is held against the update: %v", last)
	}
	refusedWith(t, patch(t, alice, deployments, "older", "d", `{"spec":{"replicas":1},"metadata":{"labels":{"x":"y"}}}`), "")
}

// patchFor labels a namespace for good, as an admin.
func patchFor(t *testing.T, cp *cluster.ControlPlane, name, body string) error {
	t.Helper()
	_, err := client(t, cp, cluster.Admin, "system:masters").Resource(namespaces).
		Patch(t.Context(), name, "application/merge-patch+json", []byte(body), metav1.PatchOptions{})
	return err
}

// TestTheAPIServerTakesEveryObject: what decodes may still be invalid, a match condition of a webhook entry for example.
func TestTheAPIServerTakesEveryObject(t *testing.T) {
	t.Parallel()
	c := client(t, live(t), cluster.Admin, "system:masters")
	for name := range profiles(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, o := range render(t, name) {
				switch o.GroupVersionKind().Group {
				case untyped, "cert-manager.io":
					continue // needs their definitions
				}
				if o.GetNamespace() != "" && o.GetNamespace() != Namespace {
					continue // a namespace that this profile speaks of and nobody made
				}
				raw, err := o.MarshalJSON()
				if err != nil {
					t.Fatal(err)
				}
				if err := create(t, c, string(raw), dryRun); err != nil && !apierrors.IsAlreadyExists(err) {
					t.Errorf("%s %s: %v", o.GetKind(), o.GetName(), err)
				}
			}
		})
	}
}

// resource guesses an object's resource as English does.
func resource(o *unstructured.Unstructured) schema.GroupVersionResource {
	gvk := o.GroupVersionKind()
	plural := strings.ToLower(gvk.Kind) + "s"
	if strings.HasSuffix(plural, "ys") {
		plural = strings.TrimSuffix(plural, "ys") + "ies"
	}
	switch gvk.Kind {
	case "TokenRequest":
		return schema.GroupVersionResource{Version: "v1", Resource: "serviceaccounts"}
	case "Binding":
		return schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	}
	return gvk.GroupVersion().WithResource(plural)
}
