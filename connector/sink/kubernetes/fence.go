package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/lanyard-k8s/lanyard/api/wire"
)

// ErrNoFence means that the policy which holds a socket connector to its own node is missing or does not deny.
var ErrNoFence = errors.New("the policy " + wire.PolicyNodeStatus + " is not in force")

// CheckFence looks whether the policy and its binding are there, both under the name wire.PolicyNodeStatus, and deny. A
// socket connector must not start this sink otherwise: its right to patch nodes/status is one for all nodes. It returns
// ErrNoFence with what is missing, or the API server's error when that did not answer. It needs the right to get the two
// objects; a connector without it can try instead, by a dry run, whether it is refused what the policy forbids.
func CheckFence(ctx context.Context, client kubernetes.Interface) error {
	admission := client.AdmissionregistrationV1()
	policy, err := admission.ValidatingAdmissionPolicies().Get(ctx, wire.PolicyNodeStatus, metav1.GetOptions{})
	if err != nil {
		return missing("policy", err)
	}
	binding, err := admission.ValidatingAdmissionPolicyBindings().Get(ctx, wire.PolicyNodeStatus, metav1.GetOptions{})
	if err != nil {
		return missing("binding", err)
	}
	if fault := faultOf(policy, binding); fault != "" {
		return fmt.Errorf("%w: %s", ErrNoFence, fault)
	}
	return nil
}

func missing(what string, err error) error {
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("%w: the %s is missing", ErrNoFence, what)
	}
	return fmt.Errorf("look for the %s: %w", what, err)
}

// faultOf says what keeps the policy from denying, or nothing.
func faultOf(p *admissionregistrationv1.ValidatingAdmissionPolicy, b *admissionregistrationv1.ValidatingAdmissionPolicyBinding) string {
	switch fails := p.Spec.FailurePolicy; {
	case fails != nil && *fails != admissionregistrationv1.Fail:
		return "the policy's failurePolicy is not Fail"
	case len(p.Spec.Validations) == 0:
		return "the policy has no validations"
	case !matchesNodeStatus(p.Spec.MatchConstraints):
		return "the policy does not match nodes/status"
	case b.Spec.PolicyName != wire.PolicyNodeStatus:
		return "the binding is of another policy"
	case !slices.Contains(b.Spec.ValidationActions, admissionregistrationv1.Deny):
		return "the binding does not deny"
	case b.Spec.MatchResources != nil && narrows(b.Spec.MatchResources):
		return "the binding leaves objects out"
	default:
		return ""
	}
}

func matchesNodeStatus(m *admissionregistrationv1.MatchResources) bool {
	return m != nil && slices.ContainsFunc(m.ResourceRules, func(r admissionregistrationv1.NamedRuleWithOperations) bool {
		return slices.ContainsFunc(r.Resources, func(name string) bool {
			return slices.Contains([]string{"nodes/status", "nodes/*", "*/status", "*/*"}, name)
		})
	})
}

func narrows(m *admissionregistrationv1.MatchResources) bool {
	selects := func(s *metav1.LabelSelector) bool {
		return s != nil && len(s.MatchLabels)+len(s.MatchExpressions) > 0
	}
	return selects(m.NamespaceSelector) || selects(m.ObjectSelector) || len(m.ResourceRules) > 0 || len(m.ExcludeResourceRules) > 0
}
