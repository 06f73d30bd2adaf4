package doctor

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Unknown stands, as the only entry, for a list in the expected policies that no configuration in the cluster tells:
// any list of strings passes in its place. Everything around it must be exactly as expected.
const Unknown = "lanyard.dev/unknown"

// anyList matches a CEL list of strings.
const anyList = `\[(?:\s*"(?:[^"\\]|\\.)*"\s*,?)*\s*\]`

// sameText compares an expression with the expected one.
func sameText(live, want string) bool {
	if live == want {
		return true
	}
	hole := `["` + Unknown + `"]`
	if !strings.Contains(want, hole) {
		return false
	}
	var pattern strings.Builder
	for i, part := range strings.Split(want, hole) {
		if i > 0 {
			pattern.WriteString(anyList)
		}
		pattern.WriteString(regexp.QuoteMeta(part))
	}
	re, err := regexp.Compile(`(?s)^` + pattern.String() + `$`)
	return err == nil && re.MatchString(live)
}

// sameExpressions compares named expressions in their order, which matters for variables alone.
func sameExpressions(live, want []string) bool {
	return slices.EqualFunc(live, want, sameText)
}

func conditionTexts(p admissionregistrationv1.ValidatingAdmissionPolicy) []string {
	var texts []string
	for _, c := range p.Spec.MatchConditions {
		texts = append(texts, c.Expression)
	}
	return texts
}

func variableTexts(p admissionregistrationv1.ValidatingAdmissionPolicy) []string {
	var texts []string
	for _, v := range p.Spec.Variables {
		texts = append(texts, v.Name+" = "+v.Expression)
	}
	return texts
}

// validationTexts are the expressions alone: a message refuses nothing.
func validationTexts(p admissionregistrationv1.ValidatingAdmissionPolicy) []string {
	var texts []string
	for _, v := range p.Spec.Validations {
		texts = append(texts, v.Expression)
	}
	return texts
}

// sameSelector compares selectors whatever the order of their requirements and values.
func sameSelector(live, want *metav1.LabelSelector) bool {
	if !maps.Equal(live.MatchLabels, want.MatchLabels) || len(live.MatchExpressions) != len(want.MatchExpressions) {
		return false
	}
	for _, w := range want.MatchExpressions {
		if !slices.ContainsFunc(live.MatchExpressions, func(l metav1.LabelSelectorRequirement) bool {
			return l.Key == w.Key && l.Operator == w.Operator && (slices.Equal(w.Values, []string{Unknown}) || sameSet(l.Values, w.Values))
		}) {
			return false
		}
	}
	return true
}

func sameSet(a, b []string) bool {
	return slices.Equal(slices.Compact(slices.Sorted(slices.Values(a))), slices.Compact(slices.Sorted(slices.Values(b))))
}

// sameRules compares rules whatever the order of their words.
func sameRules(live, want []admissionregistrationv1.NamedRuleWithOperations) bool {
	return sameSet(ruleTexts(live), ruleTexts(want))
}

func ruleTexts(rules []admissionregistrationv1.NamedRuleWithOperations) []string {
	texts := []string{}
	for _, r := range rules {
		var operations []string
		for _, o := range r.Operations {
			operations = append(operations, string(o))
		}
		var words []string
		for _, list := range [][]string{operations, r.APIGroups, r.APIVersions, r.Resources, r.ResourceNames, {string(*r.Scope)}} {
			words = append(words, strings.Join(slices.Sorted(slices.Values(list)), ","))
		}
		texts = append(texts, strings.Join(words, ";"))
	}
	return texts
}
