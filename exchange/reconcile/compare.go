package reconcile

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lanyard-k8s/lanyard/policy"
)

// State is how the policies stand. The zero value is none that confirms.
type State string

// The states, from the best to the worst.
const (
	// InOrder: every policy is as this program's configuration makes it.
	InOrder State = "in_order"
	// Rollout: lists of names differ and nothing else; an upgrade is under way. Nothing new is confirmed until it is over.
	Rollout State = "rollout"
	// Drift: a policy is missing, weakened, narrowed or does not deny.
	Drift State = "drift"
)

// States lists every state once, for metrics and tests.
func States() []State { return []State{InOrder, Rollout, Drift} }

func worse(a, b State) State {
	if slices.Index(States(), a) > slices.Index(States(), b) {
		return a
	}
	return b
}

// hole stands for a list of names in the texts that lists are told apart by. It has the form of a "group/Kind" as well.
const hole = "lanyard.dev/any"

// anyList matches a CEL list of strings, anyMap a map of such lists.
const (
	anyString = `"(?:[^"\\]|\\.)*"`
	anyList   = `\[(?:` + anyString + `,?)*\]`
	anyMap    = `\{(?:` + anyString + `:` + anyList + `,?)*\}`
)

// expectation is one policy as it must be, with the patterns that its texts match whatever their lists hold.
type expectation struct {
	want  policy.Policy
	loose policy.Policy
}

// expectations are the policies that deny. One that only warns guards nothing, and may be changed.
func expectations(s policy.Settings) ([]expectation, error) {
	var all []expectation
	want, loose := policy.All(s), policy.All(withHoles(s))
	if len(want) != len(loose) {
		return nil, fmt.Errorf("build the expected policies: %d are not %d", len(want), len(loose))
	}
	for i, p := range want {
		if slices.Contains(p.Binding.Spec.ValidationActions, admissionregistrationv1.Deny) {
			all = append(all, expectation{p, loose[i]})
		}
	}
	return all, nil
}

// withHoles replaces every list of names.
func withHoles(s policy.Settings) policy.Settings {
	for v, i := reflect.ValueOf(&s).Elem(), 0; i < v.NumField(); i++ {
		if f := v.Field(i); f.Type() == reflect.TypeFor[[]string]() {
			f.Set(reflect.ValueOf([]string{hole}))
		}
	}
	group, kind, _ := strings.Cut(hole, "/")
	s.Kinds = []policy.Kind{{Group: group, Kind: kind, PodCreators: []string{hole}, AdoptionLabels: []string{hole}}}
	s.Delegating = []policy.Controller{{Identity: hole, Parents: []string{hole}}}
	return s
}

// compare says how a live policy and its binding stand; nil is a missing one.
func (e expectation) compare(p *admissionregistrationv1.ValidatingAdmissionPolicy, b *admissionregistrationv1.ValidatingAdmissionPolicyBinding) State {
	if p == nil || b == nil {
		return Drift
	}
	return worse(e.policy(p.Spec), e.binding(b.Spec))
}

func (e expectation) policy(live admissionregistrationv1.ValidatingAdmissionPolicySpec) State {
	want := e.want.Policy.Spec
	switch {
	case live.FailurePolicy == nil || *live.FailurePolicy != *want.FailurePolicy, live.ParamKind != nil, live.MatchConstraints == nil:
		return Drift
	}
	state := resources(*live.MatchConstraints, *want.MatchConstraints)
	texts := func(s admissionregistrationv1.ValidatingAdmissionPolicySpec) (all []string) {
		for _, c := range s.MatchConditions {
			all = append(all, "condition "+c.Name+"="+c.Expression)
		}
		for _, v := range s.Variables {
			all = append(all, "variable "+v.Name+"="+v.Expression)
		}
		for _, v := range s.Validations { // messages refuse nothing
			all = append(all, "validation "+v.Expression)
		}
		return all
	}
	liveTexts, wantTexts, looseTexts := texts(live), texts(want), texts(e.loose.Policy.Spec)
	if len(liveTexts) != len(wantTexts) || len(looseTexts) != len(wantTexts) {
		return Drift
	}
	for i := range wantTexts {
		state = worse(state, sameText(liveTexts[i], wantTexts[i], looseTexts[i]))
	}
	return state
}

func sameText(live, want, loose string) State {
	if live == want {
		return InOrder
	}
	pattern := regexp.QuoteMeta(loose)
	pattern = strings.ReplaceAll(pattern, regexp.QuoteMeta(`{"`+hole+`":["`+hole+`"]}`), anyMap)
	pattern = strings.ReplaceAll(pattern, regexp.QuoteMeta(`["`+hole+`"]`), anyList)
	if matched, err := regexp.MatchString(`(?s)^`+pattern+`$`, live); err == nil && matched {
		return Rollout
	}
	return Drift
}

func (e expectation) binding(live admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec) State {
	want := e.want.Binding.Spec
	if live.PolicyName != want.PolicyName || live.ParamRef != nil {
		return Drift
	}
	state := InOrder
	if !slices.Contains(live.ValidationActions, admissionregistrationv1.Deny) {
		if want.PolicyName != policy.ReservedNames {
			return Drift
		}
		state = Rollout // the one policy whose actions are a setting (admission.mode)
	}
	if live.MatchResources == nil {
		live.MatchResources = &admissionregistrationv1.MatchResources{}
	}
	return worse(state, resources(*live.MatchResources, *want.MatchResources))
}

// resources compares what is matched. More than expected is a rollout, since the guards stand wherever they should; less is drift.
func resources(live, want admissionregistrationv1.MatchResources) State {
	policyOf := func(m *admissionregistrationv1.MatchPolicyType) admissionregistrationv1.MatchPolicyType {
		return *orElse(m, new(admissionregistrationv1.Equivalent))
	}
	if len(live.ExcludeResourceRules) > 0 || policyOf(live.MatchPolicy) != policyOf(want.MatchPolicy) || !sameObjects(live.ObjectSelector, want.ObjectSelector) {
		return Drift
	}
	state := rules(live.ResourceRules, want.ResourceRules)
	return worse(state, selector(live.NamespaceSelector, want.NamespaceSelector))
}

// sameObjects compares selectors of objects, absent and empty being the same.
func sameObjects(live, want *metav1.LabelSelector) bool {
	return equality.Semantic.DeepEqual(orElse(live, &metav1.LabelSelector{}), orElse(want, &metav1.LabelSelector{}))
}

// rules compares rules as sets. No rules at all is everything that a binding's policy matches.
func rules(live, want []admissionregistrationv1.NamedRuleWithOperations) State {
	texts := func(all []admissionregistrationv1.NamedRuleWithOperations) map[string]bool {
		set := map[string]bool{}
		for _, r := range all {
			for _, text := range ruleTexts(r) {
				set[text] = true
			}
		}
		return set
	}
	l, w := texts(live), texts(want)
	for text := range w {
		if !l[text] {
			return Drift
		}
	}
	switch {
	case len(l) == len(w):
		return InOrder
	case len(w) == 0:
		return Drift
	default:
		return Rollout
	}
}

// ruleTexts takes a rule apart into one text for each operation and resource.
func ruleTexts(r admissionregistrationv1.NamedRuleWithOperations) []string {
	var all []string
	scope := *orElse(r.Scope, new(admissionregistrationv1.AllScopes))
	for _, op := range r.Operations {
		for _, group := range r.APIGroups {
			for _, version := range r.APIVersions {
				for _, resource := range r.Resources {
					all = append(all, fmt.Sprint(op, " ", group, "/", version, "/", resource, " ", scope, " ", slices.Sorted(slices.Values(r.ResourceNames))))
				}
			}
		}
	}
	return all
}

// selector compares selectors of namespaces: labels must be the same, and no more namespaces left out by name.
func selector(live, want *metav1.LabelSelector) State {
	live, want = orElse(live, &metav1.LabelSelector{}), orElse(want, &metav1.LabelSelector{})
	if fmt.Sprint(live.MatchLabels) != fmt.Sprint(want.MatchLabels) || len(live.MatchExpressions) > len(want.MatchExpressions) {
		return Drift
	}
	state := InOrder
	for _, l := range live.MatchExpressions {
		i := slices.IndexFunc(want.MatchExpressions, func(w metav1.LabelSelectorRequirement) bool { return w.Key == l.Key && w.Operator == l.Operator })
		if i < 0 {
			return Drift
		}
		w := want.MatchExpressions[i].Values
		more := slices.ContainsFunc(l.Values, func(v string) bool { return !slices.Contains(w, v) })
		switch fewer := slices.ContainsFunc(w, func(v string) bool { return !slices.Contains(l.Values, v) }); {
		case more && l.Operator == metav1.LabelSelectorOpNotIn, fewer && l.Operator != metav1.LabelSelectorOpNotIn:
			return Drift
		case more, fewer:
			state = Rollout
		}
	}
	if len(live.MatchExpressions) < len(want.MatchExpressions) {
		state = Rollout
	}
	return state
}
