//go:build linux

package jobs

import (
	"context"
	"fmt"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/test/e2e/house"
)

// fleets are a kind of parent of somebody else's, as JobSet is: their controller makes a Job of each.
var fleets = schema.GroupVersionResource{Group: "fleet.example.com", Version: "v1", Resource: "fleets"}

const (
	fleetSpace      = "fleets"
	fleetController = "system:serviceaccount:fleets:controller"
)

const fleetDefinition = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: fleets.fleet.example.com}
spec:
  group: fleet.example.com
  scope: Namespaced
  names: {kind: Fleet, plural: fleets, singular: fleet, listKind: FleetList}
  versions:
    - name: v1
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

// prepareFleets makes the kind known, lets editors have fleets, and gives their controller its account and rights.
func prepareFleets(ctx context.Context, h *house.House) error {
	all, err := dynamic.NewForConfig(h.Cluster.Config())
	if err != nil {
		return err
	}
	definition := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(fleetDefinition), &definition.Object); err != nil {
		return err
	}
	definitions := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	if _, err := all.Resource(definitions).Create(ctx, definition, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("making the kind Fleet: %w", err)
	}
	if err := h.MakeNamespace(ctx, fleetSpace, nil); err != nil {
		return err
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "controller"}}
	if _, err := h.Admin.CoreV1().ServiceAccounts(fleetSpace).Create(ctx, account, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("making the fleets' controller: %w", err)
	}
	for _, role := range []*rbacv1.ClusterRole{
		{
			ObjectMeta: metav1.ObjectMeta{Name: "edit-fleets", Labels: map[string]string{"rbac.authorization.k8s.io/aggregate-to-edit": "true"}},
			Rules:      []rbacv1.PolicyRule{{APIGroups: []string{fleets.Group}, Resources: []string{"*"}, Verbs: []string{"*"}}},
		},
		{
			ObjectMeta: metav1.ObjectMeta{Name: "control-fleets"},
			Rules: []rbacv1.PolicyRule{
				{APIGroups: []string{fleets.Group}, Resources: []string{"*"}, Verbs: []string{"*"}},
				{APIGroups: []string{batchv1.GroupName}, Resources: []string{"jobs"}, Verbs: []string{"create", "get", "list", "delete"}},
			},
		},
	} {
		if _, err := h.Admin.RbacV1().ClusterRoles().Create(ctx, role, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("making ClusterRole %s: %w", role.Name, err)
		}
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "control-fleets"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "control-fleets"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: fleetSpace, Name: "controller"}},
	}
	_, err = h.Admin.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{})
	return err
}

// byAccount is a client of the fleets' controller, with a token as its pod would have.
func byAccount(t *testing.T, h *house.House) kubernetes.Interface {
	t.Helper()
	made, err := h.Admin.CoreV1().ServiceAccounts(fleetSpace).CreateToken(t.Context(), "controller", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	must(t, err)
	config := rest.AnonymousClientConfig(h.Cluster.Config())
	config.BearerToken = made.Status.Token
	c, err := kubernetes.NewForConfig(config)
	must(t, err)
	return c
}

// submitFleet makes a fleet as a person.
func submitFleet(t *testing.T, h *house.House, user, namespace, name string) *unstructured.Unstructured {
	t.Helper()
	c, err := dynamic.NewForConfig(h.Cluster.ConfigFor(user))
	must(t, err)
	fleet := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "fleet.example.com/v1", "kind": "Fleet", "metadata": map[string]any{"name": name}, "spec": map[string]any{"size": int64(1)},
	}}
	var made *unstructured.Unstructured
	house.Eventually(t, user+" to be allowed to make a fleet", func(ctx context.Context) (err error) {
		made, err = c.Resource(fleets).Namespace(namespace).Create(ctx, fleet, metav1.CreateOptions{})
		return err // the kind and the right to it are news that take a moment to spread
	})
	t.Cleanup(func() {
		_ = c.Resource(fleets).Namespace(namespace).Delete(context.Background(), name, metav1.DeleteOptions{}) // the cluster ends anyway
	})
	return made
}

// TestAParentOfSomebodyElsesKind has a controller of somebody else's make a Job for alice's fleet: the Job acts for alice, though an
// account created it. A Job of the same account without a parent acts for nobody.
func TestAParentOfSomebodyElsesKind(t *testing.T) {
	t.Parallel()
	h := enter(t)
	fleet := submitFleet(t, h, house.Alice, house.Managed, "armada")
	if got := fleet.GetAnnotations()[wire.AnnotationCreatedBy]; got != house.Alice {
		t.Fatalf("the fleet is stamped %q", got)
	}
	controller := byAccount(t, h)
	job := house.Job("armada-0", "job")
	job.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: "fleet.example.com/v1", Kind: "Fleet", Name: fleet.GetName(), UID: fleet.GetUID(), Controller: new(true),
	}}
	wantActing(t, run(t, h, h.MustSubmit(t, controller, house.Managed, job)), house.Alice, house.Managed)

	stray := h.PodOfJob(t, h.MustSubmit(t, controller, house.Managed, house.Job("stray", "job", "--mode=http")))
	h.AwaitPod(t, stray.Namespace, stray.Name, corev1.PodFailed)
	if got := identities(t, h, stray); len(got) != 1 || !refused(got[0]) {
		t.Errorf("the controller's own job, which no fleet stands behind: %+v, want the exchange's refusal", got)
	}
}
