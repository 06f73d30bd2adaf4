package kubernetes

import (
	"errors"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/policy"
)

// fence is the policy as it is installed.
func fence(t *testing.T) policy.Policy {
	t.Helper()
	for _, p := range policy.All(policy.Settings{Mode: policy.Enforce, SocketConnector: "system:serviceaccount:lanyard:lanyard-connector"}) {
		if p.Policy.Name == wire.PolicyNodeStatus {
			return p
		}
	}
	t.Fatal("there is no policy for the socket connector")
	return policy.Policy{}
}

func TestTheFenceMustStand(t *testing.T) {
	t.Parallel()
	ignore := admissionregistrationv1.Ignore
	for name, tc := range map[string]struct {
		spoil func(p *policy.Policy)
		want  bool
	}{
		"as it is installed":          {func(*policy.Policy) {}, true},
		"no policy":                   {func(p *policy.Policy) { p.Policy.Name = "another" }, false},
		"no binding":                  {func(p *policy.Policy) { p.Binding.Name = "another" }, false},
		"a binding of another policy": {func(p *policy.Policy) { p.Binding.Spec.PolicyName = "another" }, false},
		"a warning alone": {func(p *policy.Policy) {
			p.Binding.Spec.ValidationActions = []admissionregistrationv1.ValidationAction{admissionregistrationv1.Warn}
		}, false},
		"a policy that fails open":   {func(p *policy.Policy) { p.Policy.Spec.FailurePolicy = &ignore }, false},
		"a policy without a rule":    {func(p *policy.Policy) { p.Policy.Spec.Validations = nil }, false},
		"a policy of something else": {func(p *policy.Policy) { p.Policy.Spec.MatchConstraints.ResourceRules[0].Resources = []string{"pods"} }, false},
		"a policy of nothing":        {func(p *policy.Policy) { p.Policy.Spec.MatchConstraints = nil }, false},
		"a binding that leaves out": {func(p *policy.Policy) {
			p.Binding.Spec.MatchResources.ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
		}, false},
		"a binding without selectors": {func(p *policy.Policy) { p.Binding.Spec.MatchResources = nil }, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := fence(t)
			tc.spoil(&p)
			err := CheckFence(t.Context(), fake.NewClientset(p.Policy, p.Binding))
			if tc.want != (err == nil) || (err != nil && !errors.Is(err, ErrNoFence)) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestNoAnswerIsNoVerdictOnTheFence(t *testing.T) {
	t.Parallel()
	c := fake.NewClientset()
	c.PrependReactor("get", "*", func(ktesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewUnauthorized("no")
	})
	if err := CheckFence(t.Context(), c); err == nil || errors.Is(err, ErrNoFence) {
		t.Errorf("got %v", err)
	}
}
