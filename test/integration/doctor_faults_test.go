//go:build unix

package integration

import (
	"context"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lanyard-k8s/lanyard/policy"
)

// What follows breaks one thing and puts it back when the test ends.

// labelledLate makes a namespace that has work already when it is labelled as managed.
func labelledLate(t *testing.T) string {
	t.Helper()
	namespace, batch := newNamespace(t, nil), admin(t).BatchV1()
	job := batchv1.JobSpec{Suspend: new(true), Template: corev1.PodTemplateSpec{Spec: newPod().Spec}}
	if _, err := batch.Jobs(namespace).Create(t.Context(), &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "train"}, Spec: job}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	nightly := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Name: "nightly"}, Spec: batchv1.CronJobSpec{
		Schedule: "@yearly", Suspend: new(true), JobTemplate: batchv1.JobTemplateSpec{Spec: job},
	}}
	if _, err := batch.CronJobs(namespace).Create(t.Context(), nightly, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	labelNamespace(t, namespace)
	return namespace
}

func deletePolicy(t *testing.T) {
	t.Helper()
	policies := admin(t).AdmissionregistrationV1().ValidatingAdmissionPolicies()
	if err := policies.Delete(t.Context(), policy.TokenRequests, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { restore(t, installation(t).ApplyPolicies(context.Background())) })
}

func editPolicy(t *testing.T, edit func(*admissionregistrationv1.ValidatingAdmissionPolicy)) {
	t.Helper()
	policies := admin(t).AdmissionregistrationV1().ValidatingAdmissionPolicies()
	update := func(ctx context.Context, edit func(*admissionregistrationv1.ValidatingAdmissionPolicy)) error {
		p, err := policies.Get(ctx, policy.TokenRequests, metav1.GetOptions{})
		if err != nil {
			return err
		}
		edit(p)
		_, err = policies.Update(ctx, p, metav1.UpdateOptions{})
		return err
	}
	var whole admissionregistrationv1.ValidatingAdmissionPolicySpec
	if err := update(t.Context(), func(p *admissionregistrationv1.ValidatingAdmissionPolicy) {
		whole = *p.Spec.DeepCopy()
		edit(p)
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.Background()
		restore(t, update(ctx, func(p *admissionregistrationv1.ValidatingAdmissionPolicy) { p.Spec = whole }))
		restore(t, installation(t).ApplyPolicies(ctx))
	})
}

func withoutDeny(t *testing.T) {
	t.Helper()
	bindings := admin(t).AdmissionregistrationV1().ValidatingAdmissionPolicyBindings()
	set := func(ctx context.Context, actions ...admissionregistrationv1.ValidationAction) error {
		b, err := bindings.Get(ctx, policy.TokenRequests, metav1.GetOptions{})
		if err != nil {
			return err
		}
		b.Spec.ValidationActions = actions
		_, err = bindings.Update(ctx, b, metav1.UpdateOptions{})
		return err
	}
	if err := set(t.Context(), admissionregistrationv1.Audit); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.Background()
		restore(t, set(ctx, admissionregistrationv1.Deny))
		restore(t, installation(t).ApplyPolicies(ctx))
	})
}

// editEntry changes the entry job.mutate.lanyard.dev.
func editEntry(t *testing.T, edit func(*admissionregistrationv1.MutatingWebhook)) {
	t.Helper()
	configurations := admin(t).AdmissionregistrationV1().MutatingWebhookConfigurations()
	update := func(ctx context.Context, edit func([]admissionregistrationv1.MutatingWebhook)) error {
		c, err := configurations.Get(ctx, "lanyard", metav1.GetOptions{})
		if err != nil {
			return err
		}
		edit(c.Webhooks)
		_, err = configurations.Update(ctx, c, metav1.UpdateOptions{})
		return err
	}
	var whole admissionregistrationv1.MutatingWebhook
	if err := update(t.Context(), func(webhooks []admissionregistrationv1.MutatingWebhook) {
		whole = *webhooks[0].DeepCopy()
		if whole.Name != "job.mutate.lanyard.dev" {
			t.Fatalf("the first entry is %s", whole.Name)
		}
		edit(&webhooks[0])
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx := context.Background()
		restore(t, update(ctx, func(webhooks []admissionregistrationv1.MutatingWebhook) { webhooks[0] = whole }))
		restore(t, installation(t).ApplyWebhooks(ctx))
	})
}
