package policy

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestAllNamesAndActions(t *testing.T) {
	t.Parallel()
	denied := []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny}
	warned := []admissionregistrationv1.ValidationAction{admissionregistrationv1.Warn}
	audited := []admissionregistrationv1.ValidationAction{admissionregistrationv1.Audit, admissionregistrationv1.Warn}
	for name, tc := range map[string]struct {
		change func(*Settings)
		want   map[string][]admissionregistrationv1.ValidationAction
	}{
		"by default every guard refuses": {
			change: func(*Settings) {},
			want: map[string][]admissionregistrationv1.ValidationAction{
				ReservedNames: denied, ProtectedAudience: denied, TokenRequests: denied, NamespaceLabels: denied, InjectedLabel: denied,
				CreatorStamp: denied, CreatorRequired: denied, BindingMetadata: denied, RoleWithoutRight: warned, NodeStatus: denied,
				JobPods: denied, Owners: denied, ManagedPods: denied, PodAccess: denied, JobTemplates: denied,
			},
		},
		"audit loosens the reserved names alone": {
			change: func(s *Settings) { s.Mode = Audit },
			want: map[string][]admissionregistrationv1.ValidationAction{
				ReservedNames: audited, ProtectedAudience: denied, TokenRequests: denied, NamespaceLabels: denied, InjectedLabel: denied,
				CreatorStamp: denied, CreatorRequired: denied, BindingMetadata: denied, RoleWithoutRight: warned, NodeStatus: denied,
				JobPods: denied, Owners: denied, ManagedPods: denied, PodAccess: denied, JobTemplates: denied,
			},
		},
		"an unknown mode refuses": {
			change: func(s *Settings) { s.Mode = ""; s.Jobs = false },
			want: map[string][]admissionregistrationv1.ValidationAction{
				ReservedNames: denied, ProtectedAudience: denied, TokenRequests: denied, NamespaceLabels: denied, InjectedLabel: denied,
				RoleWithoutRight: warned, NodeStatus: denied,
			},
		},
		"without the connector's name it is not fenced": {
			change: func(s *Settings) { s.SocketConnector, s.Jobs = "", false },
			want: map[string][]admissionregistrationv1.ValidationAction{
				ReservedNames: denied, ProtectedAudience: denied, TokenRequests: denied, NamespaceLabels: denied, InjectedLabel: denied,
				RoleWithoutRight: warned,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := defaults()
			tc.change(&s)
			got := map[string][]admissionregistrationv1.ValidationAction{}
			for _, p := range All(s) {
				if p.Policy.Name != p.Binding.Name || p.Binding.Spec.PolicyName != p.Policy.Name {
					t.Errorf("policy %s has binding %s of policy %s", p.Policy.Name, p.Binding.Name, p.Binding.Spec.PolicyName)
				}
				got[p.Policy.Name] = p.Binding.Spec.ValidationActions
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("actions (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEveryPolicyCompilesAndFailsClosed(t *testing.T) {
	t.Parallel()
	off := defaults()
	off.PublisherAudience, off.JobAudience, off.Publishers, off.Kinds, off.Delegating = "", "", nil, nil, nil
	off.TemplateEditors, off.TemplatePaths = nil, nil
	off.ForeignConditions = nil
	for name, s := range map[string]Settings{"with everything": defaults(), "with nothing listed": off} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, p := range All(s) {
				compile(t, p.Policy)
				if f := p.Policy.Spec.FailurePolicy; f == nil || *f != admissionregistrationv1.Fail {
					t.Errorf("%s does not fail closed", p.Policy.Name)
				}
				if p.Policy.Spec.ParamKind != nil || p.Binding.Spec.ParamRef != nil {
					t.Errorf("%s takes parameters: a missing one would weaken it", p.Policy.Name)
				}
				for _, c := range p.Policy.Spec.MatchConditions {
					if strings.Contains(c.Expression, "namespaceObject") {
						t.Errorf("%s reads namespaceObject in a match condition, where it is null", p.Policy.Name)
					}
				}
				for _, v := range p.Policy.Spec.Validations {
					if v.Reason == nil || *v.Reason != metav1.StatusReasonForbidden || v.Message == "" {
						t.Errorf("%s refuses without reason Forbidden or without a message: %s", p.Policy.Name, v.Expression)
					}
				}
			}
		})
	}
}

func TestTheChartHoldsTheGeneratedTemplate(t *testing.T) {
	t.Parallel()
	want, err := Template()
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../charts/lanyard/templates/policies.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("the chart's policies.yaml is not what the code says; run go run ./internal/gen (-want +got):\n%s", diff)
	}
}

func TestStampedKinds(t *testing.T) {
	t.Parallel()
	s := defaults()
	s.Kinds = append(s.Kinds,
		Kind{Group: "jobset.x-k8s.io", Kind: "JobSet"},
		Kind{Group: "batch.volcano.sh", Kind: "Job", Resource: "jobs"},
		Kind{Group: "kubeflow.org", Kind: "Proxy", Resource: "proxies"})
	s.Delegating = append(s.Delegating, Controller{Identity: "x", Parents: []string{"kubeflow.org/Proxy", "batch/CronJob", "ray.io/RayCluster"}})
	var got []string
	for _, r := range s.stamped() {
		got = append(got, r.APIGroups[0]+": "+strings.Join(r.Resources, " "))
	}
	want := []string{
		": pods pods/status", "batch: jobs jobs/status", "jobset.x-k8s.io: jobsets jobsets/status",
		"batch.volcano.sh: jobs jobs/status", "kubeflow.org: proxies proxies/status", "batch: cronjobs cronjobs/status",
		"ray.io: rayclusters rayclusters/status",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("stamped kinds (-want +got):\n%s", diff)
	}
}

func TestTheOrderOfNamesChangesNothing(t *testing.T) {
	t.Parallel()
	a, b := defaults(), defaults()
	a.Publishers, b.Publishers = []string{"x/a", "x/b"}, []string{"x/b", "x/a", "x/b"}
	a.ExcludedNamespaces, b.ExcludedNamespaces = []string{"kube-system", "lanyard"}, []string{"lanyard", "kube-system", "lanyard"}
	if diff := cmp.Diff(All(a), All(b)); diff != "" {
		t.Errorf("the same sets give other policies (-a +b):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"x/b", "x/a", "x/b"}, b.Publishers); diff != "" {
		t.Errorf("the settings were changed (-want +got):\n%s", diff)
	}
}

// TestNamesNeverChange writes the names down once more: alerts, documents and the exchange's drift check know the policies by
// them, and an upgrade that renamed one would delete a guard before it made the other.
func TestNamesNeverChange(t *testing.T) {
	t.Parallel()
	var got []string
	for _, p := range All(defaults()) {
		got = append(got, p.Policy.Name)
	}
	want := []string{
		"lanyard-namespace-labels", "lanyard-creator-stamp", "lanyard-creator-required", "lanyard-binding-metadata", "lanyard-job-pods", "lanyard-owners",
		"lanyard-managed-pods", "lanyard-pod-access", "lanyard-job-templates", "lanyard-protected-audiences", "lanyard-token-requests",
		"lanyard-injected-label", "lanyard-reserved-names", "lanyard-role-without-right", "lanyard-node-status",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("policies (-want +got):\n%s", diff)
	}
}
