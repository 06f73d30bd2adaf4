//go:build unix

package integration

import (
	"context"
	"encoding/json"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/test/cluster/injector"
)

// operation is one RFC 6902 operation.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// meddling is what a mutating webhook of somebody else's does to a pod.
type meddling func(*corev1.Pod) []operation

// The API server calls mutating webhooks in the order of their configurations' names, so that one comes before ours, which
// is called "lanyard", and the other after it.
const (
	before = "aaa-"
	after  = "zzz-"
)

// inject registers an injector for a namespace and waits until the API server calls it.
func inject(t *testing.T, order, namespace string, again admissionregistrationv1.ReinvocationPolicyType, meddle meddling) {
	t.Helper()
	i := injector.Start(t, meddle.patch)
	configurations := admin(t).AdmissionregistrationV1().MutatingWebhookConfigurations()
	_, err := configurations.Create(t.Context(), &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: order + namespace},
		Webhooks: []admissionregistrationv1.MutatingWebhook{{
			Name:                    "injector.example.com",
			AdmissionReviewVersions: []string{"v1"},
			ClientConfig:            admissionregistrationv1.WebhookClientConfig{URL: &i.URL, CABundle: i.CA},
			FailurePolicy:           new(admissionregistrationv1.Fail),
			ReinvocationPolicy:      &again,
			SideEffects:             new(admissionregistrationv1.SideEffectClassNone),
			NamespaceSelector:       &metav1.LabelSelector{MatchLabels: map[string]string{wire.LabelNamespaceName: namespace}},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
			}},
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := configurations.Delete(context.Background(), order+namespace, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	pods := admin(t).CoreV1().Pods(namespace)
	eventually(t, "the injector is called", func(ctx context.Context) (bool, error) {
		_, err := pods.Create(ctx, newPod(), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return i.Called(), err
	})
}

// patch is what the meddling comes to.
func (m meddling) patch(object []byte) ([]byte, error) {
	var pod corev1.Pod
	if err := json.Unmarshal(object, &pod); err != nil {
		return nil, err
	}
	operations := m(&pod)
	if len(operations) == 0 {
		return nil, nil
	}
	return json.Marshal(operations)
}

// mutate has a MutatingAdmissionPolicy apply a JSONPatch to the pods of a namespace that have one container, and waits until
// it does.
func mutate(t *testing.T, namespace, patch string) {
	t.Helper()
	client := admin(t).AdmissionregistrationV1()
	name := "sidecar-" + namespace
	_, err := client.MutatingAdmissionPolicies().Create(t.Context(), &admissionregistrationv1.MutatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionregistrationv1.MutatingAdmissionPolicySpec{
			MatchConstraints: &admissionregistrationv1.MatchResources{
				NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{wire.LabelNamespaceName: namespace}},
				ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: admissionregistrationv1.RuleWithOperations{
					Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
					Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
				}}},
			},
			MatchConditions:    []admissionregistrationv1.MatchCondition{{Name: "alone", Expression: "size(object.spec.containers) == 1"}},
			Mutations:          []admissionregistrationv1.Mutation{{PatchType: admissionregistrationv1.PatchTypeJSONPatch, JSONPatch: &admissionregistrationv1.JSONPatch{Expression: patch}}},
			ReinvocationPolicy: admissionregistrationv1.IfNeededReinvocationPolicy,
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		restore(t, client.MutatingAdmissionPolicies().Delete(context.Background(), name, metav1.DeleteOptions{}))
	})
	_, err = client.MutatingAdmissionPolicyBindings().Create(t.Context(), &admissionregistrationv1.MutatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: admissionregistrationv1.MutatingAdmissionPolicyBindingSpec{PolicyName: name},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		restore(t, client.MutatingAdmissionPolicyBindings().Delete(context.Background(), name, metav1.DeleteOptions{}))
	})
	eventually(t, "the policy adds its container", func(ctx context.Context) (bool, error) {
		pod, err := admin(t).CoreV1().Pods(namespace).Create(ctx, newPod(), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err == nil && len(pod.Spec.Containers) > 1, err
	})
}
