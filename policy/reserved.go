package policy

import (
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/mutate/reserved"
)

// reservedNames keeps the platform's environment names out of managed namespaces, in pods, in debug containers and, so
// that the person who submits is told, in the built-in templates. A reserved name may stand once in a container, holding
// either exactly what Lanyard writes or nothing at all. Kinds of value are not looked at: a name counts whatever its
// source. On UPDATE only what the update adds is held against it.
func reservedNames(l literals) rule {
	ops := operations(admissionregistrationv1.Create)
	return rule{
		name: ReservedNames,
		match: append([]admissionregistrationv1.NamedRuleWithOperations{
			ruleFor("", ops, "pods"),
			ruleFor("", operations(admissionregistrationv1.Update), "pods/ephemeralcontainers"),
		}, templateRules()...),
		conditions: []admissionregistrationv1.MatchCondition{{Name: "not-a-static-pod", Expression: "!(" + mirror + ")"}},
		variables: []admissionregistrationv1.Variable{
			variable("at", "request.kind.group == '' && request.kind.kind == 'Pod' ? 'spec' :\n"+
				"request.kind.kind == 'CronJob' ? 'spec.jobTemplate.spec.template.spec' : 'spec.template.spec'"),
			variable("exact", quoted(reserved.Exact())),
			variable("prefixes", quoted(reserved.Prefixes())),
			variable("podSpec", pathTo("object", "spec")),
			variable("oldPodSpec", "oldObject == null ? {} :\n"+pathTo("oldObject", "spec")),
			variable("found", reservedPaths("variables.podSpec", l)),
			variable("before", reservedPaths("variables.oldPodSpec", l)+".split('\\n')"),
			variable("added", "variables.found.split('\\n').filter(p, p != '' && !(p in variables.before)).join(', ')"),
		},
		validations: []admissionregistrationv1.Validation{forbidden(
			"variables.added == ''",
			"the pod sets environment variables that belong to the platform; remove them: a job's identity comes from its projected token",
			shortened("variables.added")+" + ': set by the platform and may not be set by a job, nor completed by an envFrom prefix; "+
				"remove it (a job gets its identity from its projected token)'",
		)},
		namespaces: managed(l),
		actions:    l.reservedActions,
	}
}

// candidate is CEL for "the variable e may have a reserved name": it begins with a word that some reserved name begins with.
// Asking for it first spares nearly every variable of every pod the full questions, which cost ten times as much and would
// let a pod of ten thousand variables use up what the API server allows an expression.
func candidate() string {
	var asked []string
	for _, name := range append(reserved.Exact(), reserved.Prefixes()...) {
		word, _, _ := strings.Cut(name, "_")
		if ask := "e.name.startsWith('" + word + "_')"; !slices.Contains(asked, ask) {
			asked = append(asked, ask)
		}
	}
	return "(" + strings.Join(asked, " || ") + ")"
}

// reservedPaths is CEL for the offending paths of a pod spec, one a line, with names in place of indices.
func reservedPaths(spec string, l literals) string {
	return `['containers', 'initContainers', 'ephemeralContainers'].map(list, ` + spec + `[?list].orValue([]).map(c, (
  c.?env.orValue([]).filter(e, ` + candidate() + ` &&
    (e.name in variables.exact || variables.prefixes.exists(p, e.name.startsWith(p))) &&
    (has(e.valueFrom) ||
     !(e.?value.orValue('') == '' || (e.name == '` + wire.EnvSubjectTokenFile + `' && e.value == ` + l.jobTokenFile + `)) ||
     c.env.filter(twin, twin.name == e.name).size() > 1)
  ).map(e, variables.at + '.' + list + '[' + c.?name.orValue('') + '].env[' + e.name + ']') +
  c.?envFrom.orValue([]).map(f, f.?prefix.orValue('')).filter(f, f != '' &&
    (variables.exact.exists(n, n.startsWith(f)) || variables.prefixes.exists(p, p.startsWith(f) || f.startsWith(p)))
  ).map(f, variables.at + '.' + list + '[' + c.?name.orValue('') + '].envFrom[' + f + ']')
).join('\n')).filter(s, s != '').join('\n')).filter(s, s != '').join('\n')`
}
