//go:build unix

package integration

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/lanyard-k8s/lanyard/api/wire"
)

// trainers are a kind of job of somebody else's, listed in the values, whose pod templates lie in a list.
var trainers = schema.GroupVersionResource{Group: "training.example.com", Version: "v1", Resource: "trainers"}

// trainerOperator creates their pods.
const trainerOperator = "system:serviceaccount:training:operator"

const trainerDefinition = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: trainers.training.example.com}
spec:
  group: training.example.com
  scope: Namespaced
  names: {kind: Trainer, plural: trainers, singular: trainer, listKind: TrainerList}
  versions:
    - name: v1
      served: true
      storage: true
      subresources: {status: {}}
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

const trainerManifest = `
apiVersion: training.example.com/v1
kind: Trainer
metadata: {generateName: run-}
spec:
  template: "resnet"
  roles:
    - name: leader
      template:
        spec: {containers: [{name: main, image: registry.example/main:1}]}
`

// dynamicAs is a client for any kind, by impersonation.
func dynamicAs(t *testing.T, user string) dynamic.Interface {
	t.Helper()
	config, err := controlPlane(t).Config()
	if err != nil {
		t.Fatal(err)
	}
	if user != "" {
		config.Impersonate = rest.ImpersonationConfig{UserName: user}
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// parsed reads a manifest.
func parsed(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
		t.Fatal(err)
	}
	return u
}

// defineTrainers makes the kind known, and lets these users do anything with it.
func defineTrainers(t *testing.T, users ...string) {
	t.Helper()
	definitions := dynamicAs(t, "").Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	made, err := definitions.Create(t.Context(), parsed(t, trainerDefinition), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { restore(t, definitions.Delete(context.Background(), made.GetName(), metav1.DeleteOptions{})) })
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "trainers"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{trainers.Group}, Resources: []string{"*"}, Verbs: []string{"*"}},
		{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"*"}},
	}}
	if _, err := admin(t).RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, user := range users {
		grantCluster(t, user, role.Name)
		eventually(t, user+" may list trainers", func(ctx context.Context) (bool, error) {
			_, err := dynamicAs(t, user).Resource(trainers).List(ctx, metav1.ListOptions{})
			return err == nil, err
		})
	}
}

// TestCustomJobKind proves that a kind named in jobKinds is stamped, checked and injected like a Job, though the API server
// knows nothing of its shape and has a string where a Job has its template.
func TestCustomJobKind(t *testing.T) {
	t.Parallel()
	const alice, bob, robot = "trainer-alice", "trainer-bob", "system:serviceaccount:training:robot"
	namespace := managed(t)
	defineTrainers(t, alice, bob, robot, trainerOperator)
	of := func(user string) dynamic.ResourceInterface {
		return dynamicAs(t, user).Resource(trainers).Namespace(namespace)
	}

	forged := parsed(t, trainerManifest)
	forged.SetAnnotations(map[string]string{wire.AnnotationCreatedBy: bob})
	var trainer *unstructured.Unstructured
	eventually(t, "the kind is served", func(ctx context.Context) (ok bool, err error) {
		trainer, err = of(alice).Create(ctx, forged, metav1.CreateOptions{})
		return !apierrors.IsNotFound(err), err
	})
	if trainer == nil || trainer.GetAnnotations()[wire.AnnotationCreatedBy] != alice {
		t.Fatalf("the trainer is %v", trainer)
	}
	_, err := of(robot).Create(t.Context(), parsed(t, trainerManifest), metav1.CreateOptions{})
	refused(t, err, "lanyard-creator-required", robot+" may not submit")
	bad := parsed(t, trainerManifest)
	leader := bad.Object["spec"].(map[string]any)["roles"].([]any)[0].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)
	leader["containers"].([]any)[0].(map[string]any)["env"] = []any{map[string]any{"name": wire.EnvPrincipal, "value": "root"}}
	_, err = of(alice).Create(t.Context(), bad, metav1.CreateOptions{})
	refused(t, err, `"job.mutate.lanyard.dev" denied`, "spec.roles[0].template.spec.containers[0].env[0].name", wire.EnvPrincipal)

	got, err := of(bob).Patch(t.Context(), trainer.GetName(), types.MergePatchType, stampedBy(nil), metav1.PatchOptions{})
	if err != nil || got.GetAnnotations()[wire.AnnotationCreatedBy] != alice {
		t.Errorf("the stamp was not put back: %v (%v)", got, err)
	}
	twice := []byte(`{"spec":{"roles":[{"template":{"spec":{"containers":[{"name":"x","env":[{"name":"NMP_PRINCIPAL"},{"name":"NMP_PRINCIPAL"}]}]}}}]}}`)
	_, err = of(bob).Patch(t.Context(), trainer.GetName(), types.MergePatchType, twice, metav1.PatchOptions{})
	refused(t, err, "lanyard-job-templates", alice+", who alone may change what they are made from")
	_, err = of(alice).Patch(t.Context(), trainer.GetName(), types.MergePatchType, twice, metav1.PatchOptions{})
	refused(t, err, `"template.validate.lanyard.dev" denied`, "stands more than once")
	// The status of a custom resource stores no metadata but through its own endpoint, which the policies watch as well.
	got, err = of(bob).Patch(t.Context(), trainer.GetName(), types.MergePatchType, stampedBy(bob), metav1.PatchOptions{}, "status")
	if err == nil && got.GetAnnotations()[wire.AnnotationCreatedBy] != alice {
		t.Errorf("the stamp was changed by way of the status: %v", got.GetAnnotations())
	}

	owned := func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: trainer.GetAPIVersion(), Kind: trainer.GetKind(), Name: trainer.GetName(), UID: trainer.GetUID(), Controller: new(true),
		}}
	}
	_, err = tryPod(t, acting(t, rest.ImpersonationConfig{UserName: bob}), namespace, newPod(owned))
	refused(t, err, "lanyard-job-pods", "as its controller and was not created by the controller of that kind")
	pod, err := tryPod(t, acting(t, rest.ImpersonationConfig{UserName: trainerOperator}), namespace, newPod(owned))
	if err != nil {
		t.Fatal(err)
	}
	identified(t, pod, trainerOperator)
	if diff := cmp.Diff([]string{"main"}, tokenIn(pod, wire.VolumeJob)); diff != "" {
		t.Errorf("containers with the token (-want +got):\n%s", diff)
	}
}
