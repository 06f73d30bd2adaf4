package policy

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lanyard-k8s/lanyard/api/wire"
)

// rule is a policy before it is put into the API's words.
type rule struct {
	name          string
	jobsOnly      bool // needs the exchange
	connectorOnly bool // needs the socket connector's name
	match         []admissionregistrationv1.NamedRuleWithOperations
	conditions    []admissionregistrationv1.MatchCondition
	variables     []admissionregistrationv1.Variable
	validations   []admissionregistrationv1.Validation
	namespaces    *metav1.LabelSelector // nil: every namespace
	actions       []admissionregistrationv1.ValidationAction
}

// policy writes the rule as API objects. Fields that the API server would default are written out, so that an installed
// object compares equal to a built one.
func (r rule) policy() Policy {
	fail, equivalent := admissionregistrationv1.Fail, admissionregistrationv1.Equivalent
	meta := metav1.ObjectMeta{Name: r.name, Labels: map[string]string{"app.kubernetes.io/part-of": "lanyard"}}
	namespaces := r.namespaces
	if namespaces == nil {
		namespaces = &metav1.LabelSelector{}
	}
	return Policy{
		Policy: &admissionregistrationv1.ValidatingAdmissionPolicy{
			TypeMeta:   typeMeta("ValidatingAdmissionPolicy"),
			ObjectMeta: meta,
			Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
				FailurePolicy: &fail,
				MatchConstraints: &admissionregistrationv1.MatchResources{
					NamespaceSelector: &metav1.LabelSelector{},
					ObjectSelector:    &metav1.LabelSelector{},
					ResourceRules:     r.match,
					MatchPolicy:       &equivalent,
				},
				MatchConditions: r.conditions,
				Variables:       r.variables,
				Validations:     r.validations,
			},
		},
		Binding: &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
			TypeMeta:   typeMeta("ValidatingAdmissionPolicyBinding"),
			ObjectMeta: *meta.DeepCopy(),
			Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
				PolicyName: r.name,
				MatchResources: &admissionregistrationv1.MatchResources{
					NamespaceSelector: namespaces,
					ObjectSelector:    &metav1.LabelSelector{},
					MatchPolicy:       &equivalent,
				},
				ValidationActions: r.actions,
			},
		},
	}
}

func typeMeta(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: admissionregistrationv1.SchemeGroupVersion.String(), Kind: kind}
}

// deny is the answer of every guard, whatever admission.mode says.
func deny() []admissionregistrationv1.ValidationAction {
	return []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny}
}

// managed selects the managed namespaces, less those that are never managed: the webhook is kept out of these by name, and
// a policy that demanded its stamp there would stop every pod.
func managed(l literals) *metav1.LabelSelector {
	return &metav1.LabelSelector{
		MatchLabels: map[string]string{wire.LabelJobs: wire.JobsManaged},
		MatchExpressions: []metav1.LabelSelectorRequirement{{
			Key: wire.LabelNamespaceName, Operator: metav1.LabelSelectorOpNotIn, Values: l.excludedNamespaces,
		}},
	}
}

func operations(ops ...admissionregistrationv1.OperationType) []admissionregistrationv1.OperationType {
	return ops
}

// ruleFor matches namespaced resources of one group in every version.
func ruleFor(group string, ops []admissionregistrationv1.OperationType, resources ...string) admissionregistrationv1.NamedRuleWithOperations {
	scope := admissionregistrationv1.NamespacedScope
	return admissionregistrationv1.NamedRuleWithOperations{
		RuleWithOperations: admissionregistrationv1.RuleWithOperations{
			Operations: ops,
			Rule: admissionregistrationv1.Rule{
				APIGroups: []string{group}, APIVersions: []string{"*"}, Resources: resources, Scope: &scope,
			},
		},
	}
}

// templateRules match the built-in kinds that hold a pod template.
func templateRules() []admissionregistrationv1.NamedRuleWithOperations {
	ops := operations(admissionregistrationv1.Create, admissionregistrationv1.Update)
	return []admissionregistrationv1.NamedRuleWithOperations{
		ruleFor("batch", ops, "jobs", "cronjobs"),
		ruleFor("apps", ops, "deployments", "statefulsets", "daemonsets", "replicasets"),
	}
}

// forbidden is one validation. Its messageExpression, when given, is the message with the object's own names in it; the
// fixed message stands in where that cannot be computed or is too long.
func forbidden(expression, message, messageExpression string) admissionregistrationv1.Validation {
	reason := metav1.StatusReasonForbidden
	return admissionregistrationv1.Validation{
		Expression: expression, Message: message, MessageExpression: messageExpression, Reason: &reason,
	}
}

func variable(name, expression string) admissionregistrationv1.Variable {
	return admissionregistrationv1.Variable{Name: name, Expression: expression}
}
