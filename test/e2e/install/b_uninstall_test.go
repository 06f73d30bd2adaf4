//go:build unix

package install

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/test/e2e/house"
)

// TestUninstall removes the release: the namespaces' labels stay, and the exchange's data.
func TestUninstall(t *testing.T) {
	h := home.Enter(t)
	mustInstall(t, h, "")
	if before, err := remains(t.Context(), h); err != nil || len(before) < 30 {
		t.Errorf("only %d objects of ours are found while the release is there; are they looked for in the right way?\n%v", len(before), errors.Join(err, errors.New(strings.Join(before, "\n"))))
	}
	if err := h.Uninstall(t.Context()); err != nil {
		t.Fatal(err)
	}
	left(t, h, []string{"persistentvolumeclaims nvsentinel/lanyard-exchange-store", "secrets nvsentinel/lanyard-exchange-keys"})
	for namespace, label := range map[string]string{house.Managed: wire.LabelJobs, house.Publishing: wire.LabelPublishers} {
		space, err := h.Admin.CoreV1().Namespaces().Get(t.Context(), namespace, metav1.GetOptions{})
		if err != nil || space.Labels[label] == "" {
			t.Errorf("namespace %s has lost its label %s (%v)", namespace, label, err)
		}
	}
	// What it protected is free again: nothing that was left behind stops a pod or a job.
	alice := h.MustClient(t, house.Alice)
	h.MustCreate(t, alice, house.Managed, house.Pod("free", "exit"))
	h.AwaitPod(t, house.Managed, "free", "Succeeded")
}

// left wants these objects to be left, and no others.
func left(t *testing.T, h *house.House, want []string) {
	t.Helper()
	house.Eventually(t, "nothing else to be left", func(ctx context.Context) error {
		got, err := remains(ctx, h)
		if err == nil && !slices.Equal(got, want) {
			err = fmt.Errorf("what is left (-want +got):\n%s", cmp.Diff(want, got))
		}
		return err
	})
}

// remains lists every object of the cluster, of whatever kind, that bears our name or our label, as "resource namespace/name".
// Events tell of the past.
func remains(ctx context.Context, h *house.House) ([]string, error) {
	all, err := dynamic.NewForConfig(h.Cluster.Config())
	if err != nil {
		return nil, err
	}
	kinds, err := discovery.ServerPreferredResources(h.Admin.Discovery())
	if err != nil {
		return nil, err
	}
	var found []string
	for _, group := range kinds {
		version, err := schema.ParseGroupVersion(group.GroupVersion)
		if err != nil {
			return nil, err
		}
		for _, r := range group.APIResources {
			if r.Name == "events" || !slices.Contains(r.Verbs, "list") {
				continue
			}
			list, err := all.Resource(version.WithResource(r.Name)).List(ctx, metav1.ListOptions{})
			if err != nil {
				return nil, fmt.Errorf("listing %s: %w", r.Name, err)
			}
			for _, o := range list.Items {
				if isOurs(o) {
					found = append(found, strings.TrimSpace(r.Name+" "+strings.TrimPrefix(o.GetNamespace()+"/"+o.GetName(), "/")))
				}
			}
		}
	}
	slices.Sort(found)
	return found, nil
}

// isOurs says whether an object bears our name or label. Helm's own records of a release are among them; what the cluster itself
// consists of is not.
func isOurs(o unstructured.Unstructured) bool {
	labels := o.GetLabels()
	if strings.HasPrefix(o.GetName(), "lanyard-test-coredns") || strings.HasPrefix(o.GetName(), "lanyard-test:") {
		return false
	}
	return strings.HasPrefix(o.GetName(), "lanyard") || labels["app.kubernetes.io/part-of"] == "lanyard" ||
		labels["app.kubernetes.io/instance"] == house.Release || labels["name"] == house.Release && labels["owner"] == "helm"
}
