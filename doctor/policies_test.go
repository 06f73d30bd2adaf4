package doctor

import (
	"slices"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lanyard-k8s/lanyard/policy"
)

const (
	policySubject  = "ValidatingAdmissionPolicy/" + policy.TokenRequests
	bindingSubject = "ValidatingAdmissionPolicyBinding/" + policy.TokenRequests
)

// tokenPolicy and tokenBinding are what the faults below are planted in; the others must stay untouched.
func (s *Snapshot) tokenPolicy() *admissionregistrationv1.ValidatingAdmissionPolicy {
	i := slices.IndexFunc(s.Policies, func(p admissionregistrationv1.ValidatingAdmissionPolicy) bool { return p.Name == policy.TokenRequests })
	return &s.Policies[i]
}

func (s *Snapshot) tokenBinding() *admissionregistrationv1.ValidatingAdmissionPolicyBinding {
	i := slices.IndexFunc(s.Bindings, func(b admissionregistrationv1.ValidatingAdmissionPolicyBinding) bool {
		return b.Name == policy.TokenRequests
	})
	return &s.Bindings[i]
}

func TestPolicyFaults(t *testing.T) {
	t.Parallel()
	narrow := &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
	runFaults(t, map[string]fault{
		"a policy is missing": {
			func(s *Snapshot) {
				s.Policies = slices.DeleteFunc(s.Policies, func(p admissionregistrationv1.ValidatingAdmissionPolicy) bool { return p.Name == policy.TokenRequests })
			},
			CheckPolicies, Fail, policySubject, "missing",
		},
		"a binding is missing": {
			func(s *Snapshot) {
				s.Bindings = slices.DeleteFunc(s.Bindings, func(b admissionregistrationv1.ValidatingAdmissionPolicyBinding) bool {
					return b.Name == policy.TokenRequests
				})
			},
			CheckPolicies, Fail, bindingSubject, "not in force",
		},
		"failurePolicy Ignore": {
			func(s *Snapshot) { s.tokenPolicy().Spec.FailurePolicy = new(admissionregistrationv1.Ignore) },
			CheckPolicies, Fail, policySubject, "failurePolicy",
		},
		"a parameter": {
			func(s *Snapshot) {
				s.tokenPolicy().Spec.ParamKind = &admissionregistrationv1.ParamKind{APIVersion: "v1", Kind: "ConfigMap"}
			},
			CheckPolicies, Fail, policySubject, "paramKind",
		},
		"fewer operations": {
			func(s *Snapshot) {
				s.tokenPolicy().Spec.MatchConstraints.ResourceRules[0].Operations = []admissionregistrationv1.OperationType{"UPDATE"}
			},
			CheckPolicies, Fail, policySubject, "resourceRules",
		},
		"an exclusion": {
			func(s *Snapshot) {
				m := s.tokenPolicy().Spec.MatchConstraints
				m.ExcludeResourceRules = slices.Clone(m.ResourceRules)
			},
			CheckPolicies, Fail, policySubject, "excludeResourceRules",
		},
		"a narrowed namespaceSelector": {
			func(s *Snapshot) { s.tokenPolicy().Spec.MatchConstraints.NamespaceSelector = narrow },
			CheckPolicies, Fail, policySubject, "matchConstraints: namespaceSelector",
		},
		"a narrowed objectSelector": {
			func(s *Snapshot) { s.tokenPolicy().Spec.MatchConstraints.ObjectSelector = narrow },
			CheckPolicies, Fail, policySubject, "matchConstraints: objectSelector",
		},
		"matchPolicy Exact": {
			func(s *Snapshot) {
				s.tokenPolicy().Spec.MatchConstraints.MatchPolicy = new(admissionregistrationv1.Exact)
			},
			CheckPolicies, Fail, policySubject, "matchPolicy",
		},
		"a matchCondition more": {
			func(s *Snapshot) {
				s.tokenPolicy().Spec.MatchConditions = append(s.tokenPolicy().Spec.MatchConditions, admissionregistrationv1.MatchCondition{Name: "x", Expression: "false"})
			},
			CheckPolicies, Fail, policySubject, "matchConditions",
		},
		"a variable more": {
			func(s *Snapshot) {
				s.tokenPolicy().Spec.Variables = append(s.tokenPolicy().Spec.Variables, admissionregistrationv1.Variable{Name: "x", Expression: "true"})
			},
			CheckPolicies, Fail, policySubject, "variables",
		},
		"a validation that always passes": {
			func(s *Snapshot) { s.tokenPolicy().Spec.Validations[0].Expression = "true" },
			CheckPolicies, Fail, policySubject, "validations",
		},
		"the API server's type check complains": {
			func(s *Snapshot) {
				s.tokenPolicy().Status.TypeChecking = &admissionregistrationv1.TypeChecking{
					ExpressionWarnings: []admissionregistrationv1.ExpressionWarning{{FieldRef: "spec.validations[0].expression"}},
				}
			},
			CheckPolicies, Warn, policySubject, "spec.validations[0].expression",
		},
		"a binding without Deny": {
			func(s *Snapshot) {
				s.tokenBinding().Spec.ValidationActions = []admissionregistrationv1.ValidationAction{admissionregistrationv1.Audit}
			},
			CheckPolicies, Fail, bindingSubject, "lacks Deny: the policy refuses nothing",
		},
		"a binding of another policy": {
			func(s *Snapshot) { s.tokenBinding().Spec.PolicyName = "other" },
			CheckPolicies, Fail, bindingSubject, "policyName",
		},
		"a binding with a parameter": {
			func(s *Snapshot) { s.tokenBinding().Spec.ParamRef = &admissionregistrationv1.ParamRef{Name: "x"} },
			CheckPolicies, Fail, bindingSubject, "paramRef",
		},
		"a narrowed binding": {
			func(s *Snapshot) { s.tokenBinding().Spec.MatchResources.NamespaceSelector = narrow },
			CheckPolicies, Fail, bindingSubject, "matchResources: namespaceSelector",
		},
	})
}

// TestPoliciesWithoutSettings shows that without the configuration what all installations have in common is compared still.
func TestPoliciesWithoutSettings(t *testing.T) {
	t.Parallel()
	s := healthy(t)
	s.Unread[SourceSettings] = "not allowed"
	s.Policies[0].Spec.Validations[0].Expression = "other(" + s.Policies[0].Spec.Validations[0].Expression + ")"
	s.tokenBinding().Spec.ValidationActions = nil
	found := examinePolicies(s)
	if len(found) != 2 || found[0].Severity != Fail || !strings.Contains(found[0].Message, "Deny") || found[1].Severity != Warn {
		t.Errorf("findings without settings = %+v, want the lost Deny and a warning", found)
	}
}

func TestSameText(t *testing.T) {
	t.Parallel()
	want := `x in ["` + Unknown + `"] || y in ["kept"]`
	for name, tc := range map[string]struct {
		live string
		want bool
	}{
		"another list in the hole":                  {`x in ["a","b"] || y in ["kept"]`, true},
		"an empty list in the hole":                 {`x in [] || y in ["kept"]`, true},
		"brackets and quotes within a string":       {`x in ["a]","\"b"] || y in ["kept"]`, true},
		"a known list that differs":                 {`x in ["a"] || y in ["other"]`, false},
		"something else than strings in the hole":   {`x in [true] || y in ["kept"]`, false},
		"an expression smuggled in behind the list": {`x in ["a"] || true || y in ["kept"]`, false},
		"a list that ends early":                    {`x in ["a"] || true || z in ["b"] || y in ["kept"]`, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := sameText(tc.live, want); got != tc.want {
				t.Errorf("sameText(%q) = %v, want %v", tc.live, got, tc.want)
			}
		})
	}
}
