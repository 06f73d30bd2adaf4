package reconcile

import (
	"slices"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lanyard-k8s/lanyard/policy"
)

func settings() policy.Settings {
	return policy.Settings{
		Mode: policy.Enforce, Jobs: true, PublisherAudience: "publishers", JobAudience: "nemo-platform", JobTokenFile: "/token",
		Publishers: []string{"ns/monitor"}, Submitters: []string{"system:serviceaccount:platform:submitter"},
		Kinds:              []policy.Kind{{Group: "batch", Kind: "Job", PodCreators: []string{"system:serviceaccount:kube-system:job-controller"}, AdoptionLabels: []string{"job-name", "controller-uid"}}},
		Delegating:         []policy.Controller{{Identity: "system:serviceaccount:kube-system:cronjob-controller", Parents: []string{"batch/CronJob"}}},
		ExcludedNamespaces: []string{"kube-system", "lanyard-system"},
	}
}

func expected(t *testing.T, s policy.Settings) []expectation {
	t.Helper()
	all, err := expectations(s)
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 13 {
		t.Fatalf("%d policies are expected", len(all))
	}
	return all
}

// compareAll compares policies with the expectations and returns the worst state.
func compareAll(all []expectation, live []policy.Policy) State {
	state := InOrder
	for _, e := range all {
		i := slices.IndexFunc(live, func(p policy.Policy) bool { return p.Policy.Name == e.want.Policy.Name })
		if i < 0 {
			return Drift
		}
		state = worse(state, e.compare(live[i].Policy, live[i].Binding))
	}
	return state
}

func TestListsAloneAreARollout(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		alter func(*policy.Settings)
		want  State
	}{
		"nothing":                 {func(*policy.Settings) {}, InOrder},
		"a submitter more":        {func(s *policy.Settings) { s.Submitters = append(s.Submitters, "system:serviceaccount:a:b") }, Rollout},
		"no submitters":           {func(s *policy.Settings) { s.Submitters = nil }, Rollout},
		"a publisher more":        {func(s *policy.Settings) { s.Publishers = append(s.Publishers, `quo"te/x`) }, Rollout},
		"another pod creator":     {func(s *policy.Settings) { s.Kinds[0].PodCreators = []string{"system:kube-controller-manager"} }, Rollout},
		"a template editor":       {func(s *policy.Settings) { s.TemplateEditors = []string{"system:serviceaccount:kueue:kueue"} }, Rollout},
		"an adoption label fewer": {func(s *policy.Settings) { s.Kinds[0].AdoptionLabels = []string{"job-name"} }, Rollout},
		"a kind more than we know": {func(s *policy.Settings) {
			s.Kinds = append(s.Kinds, policy.Kind{Group: "example.com", Kind: "Trainer", PodCreators: []string{"x"}})
		}, Rollout},
		"a kind that nobody guards yet": {func(s *policy.Settings) { s.Kinds[0].Kind, s.Kinds[0].Resource = "Other", "others" }, Drift},
		"a namespace that is left out":  {func(s *policy.Settings) { s.ExcludedNamespaces = append(s.ExcludedNamespaces, "runs") }, Drift},
		"a namespace more":              {func(s *policy.Settings) { s.ExcludedNamespaces = []string{"kube-system"} }, Rollout},
		"another subject audience":      {func(s *policy.Settings) { s.JobAudience = "other" }, Drift},
		"the mode":                      {func(s *policy.Settings) { s.Mode = policy.Audit }, Rollout},
		"no jobs":                       {func(s *policy.Settings) { s.Jobs = false }, Drift},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			changed := settings()
			tc.alter(&changed)
			if got := compareAll(expected(t, settings()), policy.All(changed)); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

// TestWeakerOrNarrowerIsDrift damages every policy in every way.
func TestWeakerOrNarrowerIsDrift(t *testing.T) {
	t.Parallel()
	ways := map[string]func(policy.Policy){
		"ignores its failures":  func(p policy.Policy) { f := admissionregistrationv1.Ignore; p.Policy.Spec.FailurePolicy = &f },
		"has a parameter":       func(p policy.Policy) { p.Policy.Spec.ParamKind = &admissionregistrationv1.ParamKind{} },
		"has a parameter bound": func(p policy.Policy) { p.Binding.Spec.ParamRef = &admissionregistrationv1.ParamRef{} },
		"matches nothing":       func(p policy.Policy) { p.Policy.Spec.MatchConstraints = nil },
		"matches one version":   func(p policy.Policy) { p.Policy.Spec.MatchConstraints.ResourceRules[0].APIVersions = []string{"v1"} },
		"leaves resources out": func(p policy.Policy) {
			p.Policy.Spec.MatchConstraints.ExcludeResourceRules = p.Policy.Spec.MatchConstraints.ResourceRules
		},
		"matches exact versions": func(p policy.Policy) {
			e := admissionregistrationv1.Exact
			p.Policy.Spec.MatchConstraints.MatchPolicy = &e
		},
		"looks at labels": func(p policy.Policy) {
			p.Policy.Spec.MatchConstraints.ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
		},
		"is bound for some labels": func(p policy.Policy) {
			p.Binding.Spec.MatchResources.ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
		},
		"is bound for a namespace": func(p policy.Policy) {
			p.Binding.Spec.MatchResources.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": "a"}}
		},
		"is bound for some resources": func(p policy.Policy) {
			p.Binding.Spec.MatchResources.ResourceRules = p.Policy.Spec.MatchConstraints.ResourceRules
		},
		"binds another policy": func(p policy.Policy) { p.Binding.Spec.PolicyName = "other" },
		"has one condition more": func(p policy.Policy) {
			p.Policy.Spec.MatchConditions = append(p.Policy.Spec.MatchConditions, admissionregistrationv1.MatchCondition{Name: "x", Expression: "false"})
		},
		"has one check fewer": func(p policy.Policy) { p.Policy.Spec.Validations = p.Policy.Spec.Validations[1:] },
		"checks nothing":      func(p policy.Policy) { p.Policy.Spec.Validations[0].Expression = "true" },
		"lets somebody through": func(p policy.Policy) {
			p.Policy.Spec.Validations[0].Expression += ` || request.userInfo.username in ["mallory"]`
		},
	}
	for name, damage := range ways {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, e := range expected(t, settings()) {
				live := policy.Policy{Policy: e.want.Policy.DeepCopy(), Binding: e.want.Binding.DeepCopy()}
				damage(live)
				if got := e.compare(live.Policy, live.Binding); got != Drift {
					t.Errorf("%s %s: got %s", e.want.Policy.Name, name, got)
				}
			}
		})
	}
	for _, e := range expected(t, settings()) {
		warns := e.want.Binding.DeepCopy()
		warns.Spec.ValidationActions = []admissionregistrationv1.ValidationAction{admissionregistrationv1.Warn}
		want := Drift
		if e.want.Policy.Name == policy.ReservedNames {
			want = Rollout
		}
		if got := e.compare(e.want.Policy, warns); got != want {
			t.Errorf("%s only warns: got %s, want %s", e.want.Policy.Name, got, want)
		}
		if e.compare(nil, warns) != Drift || e.compare(e.want.Policy, nil) != Drift {
			t.Errorf("%s is missing, and that is no drift", e.want.Policy.Name)
		}
		reworded := e.want.Policy.DeepCopy()
		reworded.Spec.Validations[0].Message = strings.Repeat("x", 10)
		if got := e.compare(reworded, e.want.Binding); got != InOrder {
			t.Errorf("%s says something else: got %s", e.want.Policy.Name, got)
		}
	}
}
