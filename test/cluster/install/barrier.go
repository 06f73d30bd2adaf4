//go:build unix

package install

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	barrierTimeout  = 3 * time.Minute
	barrierInterval = 20 * time.Millisecond
)

// barrier waits until the API server acts on every change to policies, bindings and webhook configurations made before. It
// learns of changes by watches, of each kind in the order in which they were made; so a sentinel of each kind is made, which
// refuses one ConfigMap that nobody wants, and once all refuse it, everything before them is in force, too.
func (in *Installation) barrier(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, barrierTimeout, fmt.Errorf("not in force within %s", barrierTimeout))
	defer cancel()
	name := "lanyard-test-sentinel-" + rand.String(8)
	sentinels := []client.Object{
		sentinelPolicy(name + "-policy"), sentinelBinding(name + "-policy"),
		sentinelMutating(name + "-mutating"), sentinelValidating(name + "-validating"),
	}
	var errs []error
	for _, s := range sentinels {
		errs = append(errs, in.client.Create(ctx, s))
	}
	if errors.Join(errs...) == nil {
		for _, kind := range []string{"-policy", "-mutating", "-validating"} {
			errs = append(errs, in.awaitRefusal(ctx, name+kind))
		}
	}
	for _, s := range sentinels {
		errs = append(errs, client.IgnoreNotFound(in.client.Delete(context.WithoutCancel(ctx), s)))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("waiting for admission to take effect: %w", err)
	}
	return nil
}

// awaitRefusal asks for the ConfigMap, without its being made, until the sentinel of its name refuses it.
func (in *Installation) awaitRefusal(ctx context.Context, name string) error {
	tick := time.NewTicker(barrierInterval)
	defer tick.Stop()
	for {
		unwanted := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: metav1.NamespaceDefault}}
		err := in.client.Create(ctx, unwanted, client.DryRunAll)
		if err != nil && strings.Contains(err.Error(), name) && ctx.Err() == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%s: %w; the last answer was: %w", name, context.Cause(ctx), err)
		}
	}
}

// sentinelPolicy refuses the ConfigMap of its own name.
func sentinelPolicy(name string) *admissionregistrationv1.ValidatingAdmissionPolicy {
	return &admissionregistrationv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			FailurePolicy: new(admissionregistrationv1.Fail),
			MatchConstraints: &admissionregistrationv1.MatchResources{
				ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
					ResourceNames: []string{name}, RuleWithOperations: configMaps(),
				}},
			},
			Validations: []admissionregistrationv1.Validation{{Expression: "false", Message: name}},
		},
	}
}

func sentinelBinding(name string) *admissionregistrationv1.ValidatingAdmissionPolicyBinding {
	return &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName:        name,
			ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
		},
	}
}

// sentinelMutating calls, for the ConfigMap of its own name alone, a webhook that cannot be there.
func sentinelMutating(name string) *admissionregistrationv1.MutatingWebhookConfiguration {
	return &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Webhooks: []admissionregistrationv1.MutatingWebhook{{
			Name: name + ".lanyard.dev", FailurePolicy: new(admissionregistrationv1.Fail), SideEffects: new(admissionregistrationv1.SideEffectClassNone),
			AdmissionReviewVersions: []string{"v1"},
			ClientConfig:            nowhere(), Rules: []admissionregistrationv1.RuleWithOperations{configMaps()}, MatchConditions: named(name),
		}},
	}
}

func sentinelValidating(name string) *admissionregistrationv1.ValidatingWebhookConfiguration {
	return &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: name + ".lanyard.dev", FailurePolicy: new(admissionregistrationv1.Fail), SideEffects: new(admissionregistrationv1.SideEffectClassNone),
			AdmissionReviewVersions: []string{"v1"},
			ClientConfig:            nowhere(), Rules: []admissionregistrationv1.RuleWithOperations{configMaps()}, MatchConditions: named(name),
		}},
	}
}

// nowhere is a port that nothing may listen on without being root.
func nowhere() admissionregistrationv1.WebhookClientConfig {
	return admissionregistrationv1.WebhookClientConfig{URL: new("https://127.0.0.1:1/")}
}

// named matches the object of a name.
func named(name string) []admissionregistrationv1.MatchCondition {
	return []admissionregistrationv1.MatchCondition{{Name: "sentinel", Expression: "object.metadata.name == '" + name + "'"}}
}

func configMaps() admissionregistrationv1.RuleWithOperations {
	return admissionregistrationv1.RuleWithOperations{
		Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
		Rule: admissionregistrationv1.Rule{
			APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"},
		},
	}
}
