package policy

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
)

// jobTemplates (P6) leaves what will run as somebody to that person: the part of a stamped object from which pods are made is
// changed by its stamped creator, by the listed template editors (Kueue and its like, which place suspended jobs) and by
// platform admins. What only says when, how often and how many is for whom RBAC allows. And a Job selects its own pods alone.
func jobTemplates(l literals) rule {
	return rule{
		name:       JobTemplates,
		jobsOnly:   true,
		match:      l.stamped,
		conditions: []admissionregistrationv1.MatchCondition{{Name: "not-a-pod", Expression: "!(request.kind.group == '' && request.kind.kind == 'Pod')"}},
		variables:  jobTemplatesVariables(l),
		validations: []admissionregistrationv1.Validation{
			forbidden(
				"!variables.changed ||\n(variables.creator != '' && variables.creator == "+caller+") ||\n"+caller+" in "+l.templateEditors+" ||\n"+admin,
				"the template of work that acts for its creator is changed by that creator alone; delete the object and create your own "+
					"(suspend, schedule, parallelism and the like may be changed)",
				"'the pods of this ' + request.kind.kind + ' act for ' + (variables.creator == '' ? 'nobody, since it was created before the namespace was managed' : variables.creator) + "+
					"', who alone may change what they are made from; delete it and create your own (suspend, schedule, parallelism and the like may be changed)'",
			),
			forbidden(
				"!variables.manual || variables.manualBefore",
				"spec.manualSelector lets a Job take over pods that are not its own; remove it and spec.selector, and the API server writes both", "",
			),
			forbidden(
				"variables.foreign.all(k, k in variables.oldForeign && variables.oldTemplateLabels[k] == variables.templateLabels[k])",
				"the pod template bears another Job's controller-uid; remove the label, and the API server writes the right one", "",
			),
		},
		namespaces: managed(l),
		actions:    deny(),
	}
}

func jobTemplatesVariables(l literals) []admissionregistrationv1.Variable {
	batch := func(object, field string) string {
		return "request.kind.group == 'batch' && (request.kind.kind == 'CronJob' ? " + object + ".?spec.?jobTemplate.?spec.?" + field +
			".orValue(false) : " + object + ".?spec.?" + field + ".orValue(false))"
	}
	labels := func(object string) string {
		return "request.kind.group != 'batch' ? {} : request.kind.kind == 'CronJob' ? " + object + ".?spec.?jobTemplate.?spec.?template.?metadata.?labels.orValue({}) :\n" +
			object + ".?spec.?template.?metadata.?labels.orValue({})"
	}
	foreign := func(labels string) string {
		return labels + ".map(k, k).filter(k, k in " + l.adoptionLabels + " && k.endsWith('" + uidSuffix + "') &&\n" +
			"  " + labels + "[k] != object.metadata.?uid.orValue(''))"
	}
	return []admissionregistrationv1.Variable{
		variable("creator", "oldObject == null ? '' : "+annotation("oldObject", stampKey)+".orValue('')"),
		variable("of", "request.kind.group + '/' + request.kind.kind + ':'"),
		variable("paths", "(['batch/Job:spec.template', 'batch/CronJob:spec.jobTemplate'] + "+l.templatePaths+")\n"+
			"  .filter(p, p.startsWith(variables.of)).map(p, p.split(':')[1].split('.'))"),
		variable("spec", "dyn(object.?spec.orValue({}))"),
		variable("oldSpec", "dyn(oldObject == null ? {} : oldObject.?spec.orValue({}))"),
		// A path that neither object has says nothing: it is misspelt, or of another served version of the kind. Without any other,
		// all of spec is compared, as for a kind without paths.
		variable("found", "variables.paths.filter(p, "+at("dyn(object)")+".hasValue() ||\n  oldObject != null && "+at("dyn(oldObject)")+".hasValue())"),
		variable("changed", "oldObject != null && (variables.found.size() == 0 ?\n"+
			"!("+sameBut("variables.spec", "variables.oldSpec", "suspend")+") :\n"+
			"!variables.found.all(p, "+at("dyn(object)")+" ==\n  "+at("dyn(oldObject)")+"))"),
		variable("manual", batch("object", "manualSelector")),
		variable("manualBefore", "oldObject != null && "+batch("oldObject", "manualSelector")),
		variable("templateLabels", labels("object")),
		variable("oldTemplateLabels", "oldObject == null ? {} : "+labels("oldObject")),
		variable("foreign", foreign("variables.templateLabels")),
		variable("oldForeign", foreign("variables.oldTemplateLabels")),
	}
}

// at walks the path p from an object; of a path that is longer than four keys, the first four are walked, so that more is
// guarded and not less.
func at(object string) string {
	return "(p.size() == 1 ? " + object + "[?p[0]] : p.size() == 2 ? " + object + "[?p[0]][?p[1]] :\n" +
		"  p.size() == 3 ? " + object + "[?p[0]][?p[1]][?p[2]] : " + object + "[?p[0]][?p[1]][?p[2]][?p[3]])"
}
