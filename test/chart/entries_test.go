//go:build unix

package chart

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// entry is what mutating and validating webhooks have in common.
type entry struct {
	name       string
	path       string
	policy     admissionregistrationv1.FailurePolicyType
	namespaces *metav1.LabelSelector
	rules      []admissionregistrationv1.RuleWithOperations
	conditions []admissionregistrationv1.MatchCondition
	caBundle   []byte
	sides      admissionregistrationv1.SideEffectClass
}

// entries returns a rendering's webhook entries in order, the mutating ones first.
func entries(t *testing.T, objects []*unstructured.Unstructured) []entry {
	t.Helper()
	var all []entry
	if o := find(objects, "MutatingWebhookConfiguration", "lanyard"); o != nil {
		for _, w := range decode(t, o).(*admissionregistrationv1.MutatingWebhookConfiguration).Webhooks {
			if *w.ReinvocationPolicy != admissionregistrationv1.IfNeededReinvocationPolicy {
				t.Errorf("%s is not called again after others", w.Name)
			}
			all = append(all, entry{w.Name, *w.ClientConfig.Service.Path, *w.FailurePolicy, w.NamespaceSelector, w.Rules, w.MatchConditions, w.ClientConfig.CABundle, *w.SideEffects})
		}
	}
	if o := find(objects, "ValidatingWebhookConfiguration", "lanyard"); o != nil {
		for _, w := range decode(t, o).(*admissionregistrationv1.ValidatingWebhookConfiguration).Webhooks {
			all = append(all, entry{w.Name, *w.ClientConfig.Service.Path, *w.FailurePolicy, w.NamespaceSelector, w.Rules, w.MatchConditions, w.ClientConfig.CABundle, *w.SideEffects})
		}
	}
	return all
}

func TestEntries(t *testing.T) {
	t.Parallel()
	for profile, want := range map[string][]string{
		"default": {
			"job.mutate.lanyard.dev /mutate/job Fail", "stamp.mutate.lanyard.dev /mutate/job Ignore", "publisher.mutate.lanyard.dev /mutate/publisher Fail",
			"job.validate.lanyard.dev /validate/job Fail", "publisher.validate.lanyard.dev /validate/publisher Fail", "template.validate.lanyard.dev /validate/template Ignore",
		},
		"audit": {
			"job.mutate.lanyard.dev /mutate/job Fail", "stamp.mutate.lanyard.dev /mutate/job Ignore", "publisher.mutate.lanyard.dev /mutate/publisher Fail", "listed.mutate.lanyard.dev /mutate/listed Fail",
			"job.validate.lanyard.dev /validate/job Fail", "publisher.validate.lanyard.dev /validate/publisher Fail", "listed.validate.lanyard.dev /validate/listed Fail", "template.validate.lanyard.dev /validate/template Ignore",
		},
		"no-policies": {
			"publisher.mutate.lanyard.dev /mutate/publisher Fail", "listed.mutate.lanyard.dev /mutate/listed Fail",
			"publisher.validate.lanyard.dev /validate/publisher Fail", "listed.validate.lanyard.dev /validate/listed Fail",
		},
		"disabled": nil,
	} {
		t.Run(profile, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, e := range entries(t, render(t, profile)) {
				got = append(got, e.name+" "+e.path+" "+string(e.policy))
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("entries (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEntriesKeepOutOfTheWay(t *testing.T) {
	t.Parallel()
	for profile := range profiles(t) {
		t.Run(profile, func(t *testing.T) {
			t.Parallel()
			for _, e := range entries(t, render(t, profile)) {
				excluded := excludedBy(e.namespaces)
				for _, ns := range []string{"kube-system", "kube-public", "kube-node-lease"} {
					if !slices.Contains(excluded, ns) {
						t.Errorf("%s may be called for %s", e.name, ns)
					}
				}
				if listed := strings.HasPrefix(e.name, "listed."); !listed && !slices.Contains(excluded, Namespace) {
					t.Errorf("%s may be called for Lanyard's own namespace: an outage would keep it down", e.name)
				}
				for _, c := range e.conditions {
					if strings.Contains(c.Expression, "namespaceObject") || strings.Contains(c.Expression, "lanyard-") {
						t.Errorf("%s: condition %s", e.name, c.Expression)
					}
				}
				if (len(e.caBundle) > 0) != (profile == "no-cert-manager") {
					t.Errorf("%s: caBundle of %d bytes", e.name, len(e.caBundle))
				}
				if e.sides != admissionregistrationv1.SideEffectClassNone {
					t.Errorf("%s has side effects", e.name)
				}
				checkRules(t, e)
			}
		})
	}
}

// checkRules refuses what a webhook must never stand in front of.
func checkRules(t *testing.T, e entry) {
	t.Helper()
	for _, r := range e.rules {
		for _, resource := range r.Resources {
			if strings.Contains(resource, "*") || resource == "leases" || resource == "nodes" || resource == "namespaces" {
				t.Errorf("%s matches %s", e.name, resource)
			}
			if resource == "pods" && !slices.Equal(r.Operations, []admissionregistrationv1.OperationType{admissionregistrationv1.Create}) {
				t.Errorf("%s matches pods on %v", e.name, r.Operations)
			}
		}
		for _, op := range r.Operations {
			if op != admissionregistrationv1.Create && op != admissionregistrationv1.Update {
				t.Errorf("%s matches %s", e.name, op)
			}
		}
	}
}

func excludedBy(s *metav1.LabelSelector) []string {
	for _, r := range s.MatchExpressions {
		if r.Key == "kubernetes.io/metadata.name" && r.Operator == metav1.LabelSelectorOpNotIn {
			return r.Values
		}
	}
	return nil
}
