package doctor

import (
	"fmt"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lanyard-k8s/lanyard/policy"
)

const (
	policyKind  = "ValidatingAdmissionPolicy"
	bindingKind = "ValidatingAdmissionPolicyBinding"

	repair = "upgrade the release with the chart, and find out who changed it; objects created meanwhile went unguarded"
)

// examinePolicies holds every installed policy and binding against the expected ones, after the API server's defaults.
// Without the installation's settings only what every installation has in common is compared, and that is said.
func examinePolicies(s Snapshot) []Finding {
	why, unknown := s.Unread[SourceSettings]
	found := examineEach(s, !unknown)
	if unknown {
		found = append(found, Finding{
			Severity: Warn, Subject: string(SourceSettings),
			Message: "expressions and selectors of the policies were not compared, since " + string(SourceSettings) + " could not be read: " + why,
			Advice:  "run doctor as somebody who may read ConfigMaps in the release's namespace, or give the file with --config",
		})
	}
	return found
}

func examineEach(s Snapshot, whole bool) []Finding {
	var found []Finding
	for _, want := range s.ExpectedPolicies {
		subject := policyKind + "/" + want.Name
		i := slices.IndexFunc(s.Policies, func(p admissionregistrationv1.ValidatingAdmissionPolicy) bool { return p.Name == want.Name })
		if i < 0 {
			found = append(found, Finding{Severity: Fail, Subject: subject, Message: "the policy is missing: nothing in the API server enforces it", Advice: repair})
			continue
		}
		for _, message := range policyFaults(s.Policies[i], want, whole) {
			found = append(found, Finding{Severity: Fail, Subject: subject, Message: message, Advice: repair})
		}
		found = append(found, uncompiled(s.Policies[i])...)
	}
	for _, want := range s.ExpectedBindings {
		subject := bindingKind + "/" + want.Name
		i := slices.IndexFunc(s.Bindings, func(b admissionregistrationv1.ValidatingAdmissionPolicyBinding) bool { return b.Name == want.Name })
		if i < 0 {
			found = append(found, Finding{Severity: Fail, Subject: subject, Message: "the binding is missing: its policy is not in force", Advice: repair})
			continue
		}
		for _, message := range bindingFaults(s.Bindings[i], want, whole) {
			found = append(found, Finding{Severity: Fail, Subject: subject, Message: message, Advice: repair})
		}
	}
	return found
}

// uncompiled reports what the API server itself found wrong with a policy's expressions.
func uncompiled(p admissionregistrationv1.ValidatingAdmissionPolicy) []Finding {
	if p.Status.TypeChecking == nil || len(p.Status.TypeChecking.ExpressionWarnings) == 0 {
		return nil
	}
	var fields []string
	for _, w := range p.Status.TypeChecking.ExpressionWarnings {
		fields = append(fields, w.FieldRef)
	}
	return []Finding{{
		Severity: Warn, Subject: policyKind + "/" + p.Name,
		Message: "the API server's type check complains of " + few(fields),
		Advice:  "see kubectl get validatingadmissionpolicy " + p.Name + " -o yaml, under status; tell Lanyard's maintainers if the chart made it so",
	}}
}

// policyFaults says in which ways a policy is not what it must be.
func policyFaults(live, want admissionregistrationv1.ValidatingAdmissionPolicy, whole bool) []string {
	var faults []string
	if p := live.Spec.FailurePolicy; p != nil && *p != admissionregistrationv1.Fail {
		faults = append(faults, "failurePolicy is not Fail: an expression that errors lets the request through")
	}
	if live.Spec.ParamKind != nil && want.Spec.ParamKind == nil {
		faults = append(faults, "paramKind is set: whoever writes the parameter writes the policy")
	}
	if !whole {
		return faults
	}
	for _, what := range resourceFaults(live.Spec.MatchConstraints, want.Spec.MatchConstraints) {
		faults = append(faults, "matchConstraints: "+what)
	}
	differ := func(field string, same bool, means string) {
		if !same {
			faults = append(faults, field+" differ from the expected: "+means)
		}
	}
	differ("matchConditions", sameExpressions(conditionTexts(live), conditionTexts(want)), "requests may escape the policy")
	differ("variables", sameExpressions(variableTexts(live), variableTexts(want)), "the policy does not compute what it should")
	differ("validations", sameExpressions(validationTexts(live), validationTexts(want)), "the policy does not refuse what it should")
	return faults
}

// bindingFaults says in which ways a binding is not what it must be.
func bindingFaults(live, want admissionregistrationv1.ValidatingAdmissionPolicyBinding, whole bool) []string {
	var faults []string
	if live.Spec.PolicyName != want.Spec.PolicyName {
		faults = append(faults, fmt.Sprintf("policyName is %q: policy %s is not in force", live.Spec.PolicyName, want.Spec.PolicyName))
	}
	for _, action := range want.Spec.ValidationActions {
		if slices.Contains(live.Spec.ValidationActions, action) || (!whole && modeDependent(want)) {
			continue
		}
		means := "it is not seen as it should be"
		if action == admissionregistrationv1.Deny {
			means = "the policy refuses nothing"
		}
		faults = append(faults, fmt.Sprintf("validationActions lacks %s: %s", action, means))
	}
	if live.Spec.ParamRef != nil && want.Spec.ParamRef == nil {
		faults = append(faults, "paramRef is set: whoever writes the parameter writes the policy")
	}
	if !whole {
		return faults
	}
	for _, what := range resourceFaults(live.Spec.MatchResources, want.Spec.MatchResources) {
		faults = append(faults, "matchResources: "+what)
	}
	return faults
}

// modeDependent says whether a binding's actions follow admission.mode, which then is not known.
func modeDependent(b admissionregistrationv1.ValidatingAdmissionPolicyBinding) bool {
	return b.Name == policy.ReservedNames
}

// resourceFaults compares what a policy or a binding looks at.
func resourceFaults(live, want *admissionregistrationv1.MatchResources) []string {
	l, w := defaulted(live), defaulted(want)
	var faults []string
	if !sameSelector(l.NamespaceSelector, w.NamespaceSelector) {
		faults = append(faults, "namespaceSelector differs from the expected: namespaces may escape")
	}
	if !sameSelector(l.ObjectSelector, w.ObjectSelector) {
		faults = append(faults, "objectSelector differs from the expected: objects may escape by their labels")
	}
	if *l.MatchPolicy != *w.MatchPolicy {
		faults = append(faults, "matchPolicy is not Equivalent: requests through another API version escape")
	}
	if !sameRules(l.ExcludeResourceRules, w.ExcludeResourceRules) {
		faults = append(faults, "excludeResourceRules differ from the expected: requests may escape")
	}
	if !sameRules(l.ResourceRules, w.ResourceRules) {
		faults = append(faults, "resourceRules differ from the expected: requests may escape")
	}
	return faults
}

// defaulted fills in what the API server would.
func defaulted(in *admissionregistrationv1.MatchResources) admissionregistrationv1.MatchResources {
	var out admissionregistrationv1.MatchResources
	if in != nil {
		out = *in.DeepCopy()
	}
	if out.NamespaceSelector == nil {
		out.NamespaceSelector = &metav1.LabelSelector{}
	}
	if out.ObjectSelector == nil {
		out.ObjectSelector = &metav1.LabelSelector{}
	}
	if out.MatchPolicy == nil {
		equivalent := admissionregistrationv1.Equivalent
		out.MatchPolicy = &equivalent
	}
	for _, rules := range [][]admissionregistrationv1.NamedRuleWithOperations{out.ResourceRules, out.ExcludeResourceRules} {
		for i := range rules {
			if rules[i].Scope == nil {
				all := admissionregistrationv1.AllScopes
				rules[i].Scope = &all
			}
		}
	}
	return out
}
