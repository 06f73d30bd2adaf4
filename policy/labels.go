package policy

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"github.com/lanyard-k8s/lanyard/api/wire"
)

// namespaceLabels leaves the lanyard.dev/ labels of namespaces to platform admins: they decide which namespace is managed
// and which may ask for the publisher role. Setting, changing and removing count, on every way a namespace can be written.
func namespaceLabels() rule {
	scope := admissionregistrationv1.ClusterScope
	match := ruleFor("", operations(admissionregistrationv1.Create, admissionregistrationv1.Update),
		"namespaces", "namespaces/status", "namespaces/finalize")
	match.Scope = &scope
	return rule{
		name:  NamespaceLabels,
		match: []admissionregistrationv1.NamedRuleWithOperations{match},
		variables: []admissionregistrationv1.Variable{
			variable("labels", "object.metadata.?labels.orValue({})"),
			variable("oldLabels", "oldObject == null ? {} : oldObject.metadata.?labels.orValue({})"),
			variable("changed",
				"variables.labels.map(k, k).filter(k, k.startsWith('"+wire.Prefix+"') &&\n"+
					"  (!(k in variables.oldLabels) || variables.oldLabels[k] != variables.labels[k])) +\n"+
					"variables.oldLabels.map(k, k).filter(k, k.startsWith('"+wire.Prefix+"') && !(k in variables.labels))"),
		},
		validations: []admissionregistrationv1.Validation{forbidden(
			"variables.changed.size() == 0 || "+admin,
			"labels under "+wire.Prefix+" on namespaces are set, changed and removed by platform admins only",
			"'namespace label ' + "+shortened("variables.changed.join(', ')")+" + ' may be set, changed or removed by platform admins only; "+
				"leave it as it is, or ask the platform team (ClusterRole lanyard-platform-admin)'",
		)},
		actions: deny(),
	}
}

// injectedLabel keeps lanyard.dev/injected true: it stands on a new pod only beside the volume that it speaks of, and never
// changes afterwards. Status updates count, since they may write labels too.
func injectedLabel(l literals) rule {
	const key = wire.LabelInjected
	borne := "'" + key + "' in object.metadata.?labels.orValue({})"
	bornBefore := "oldObject != null && '" + key + "' in oldObject.metadata.?labels.orValue({})"
	return rule{
		name: InjectedLabel,
		match: []admissionregistrationv1.NamedRuleWithOperations{
			ruleFor("", operations(admissionregistrationv1.Create, admissionregistrationv1.Update), "pods", "pods/status"),
		},
		conditions: []admissionregistrationv1.MatchCondition{{Name: "bears-the-label", Expression: borne + " || (" + bornBefore + ")"}},
		variables: []admissionregistrationv1.Variable{
			variable("value", label("object", key)),
			variable("publisher", carries(wire.VolumePublisher, l.publisherAudience)),
			variable("job", carries(wire.VolumeJob, l.jobAudience)),
		},
		validations: []admissionregistrationv1.Validation{
			forbidden(
				"request.operation != 'CREATE' ||\n"+
					"(variables.value == 'publisher' && variables.publisher) ||\n"+
					"(variables.value == 'job' && variables.job) ||\n"+
					"(variables.value == 'publisher.job' && variables.publisher && variables.job)",
				// Policies answer before our validating webhook does, so this is what is heard of a volume that somebody stripped.
				"label "+key+" is written by the platform beside the token volume that it names, and the pod lacks that volume; remove the label from "+
					"your manifest or, if it is not there, another admission webhook removed the volume: exempt it from that webhook", "",
			),
			forbidden(
				"request.operation == 'CREATE' ||\n"+
					"object.metadata.?labels[?'"+key+"'] == oldObject.metadata.?labels[?'"+key+"']",
				"label "+key+" is written by the platform when a pod is created and is never set, changed or removed afterwards; leave it as it is", "",
			),
		},
		actions: deny(),
	}
}

// carries says whether the pod has the named volume with a token for the audience; never when the role is off.
func carries(volume, audience string) string {
	return audience + " != '' && " + projected + ".exists(v, v.name == '" + volume + "' &&\n" +
		"  v.?projected.?sources.orValue([]).exists(s, s.?serviceAccountToken.?audience.orValue('') == " + audience + "))"
}

// roleWithoutRight only warns: a role label selects and never authorises, so a pod whose label means nothing here simply
// gets no token, and its author would wonder why.
func roleWithoutRight(l literals) rule {
	return rule{
		name: RoleWithoutRight,
		match: append([]admissionregistrationv1.NamedRuleWithOperations{
			ruleFor("", operations(admissionregistrationv1.Create), "pods"),
		}, templateRules()...),
		variables: []admissionregistrationv1.Variable{
			variable("podMetadata", pathTo("object", "metadata")),
			variable("podSpec", pathTo("object", "spec")),
			variable("role", "variables.podMetadata.?labels[?'"+wire.LabelRole+"'].orValue('')"),
			variable("account", "variables.podSpec.?serviceAccountName.orValue('') == '' ? 'default' : variables.podSpec.serviceAccountName"),
		},
		validations: []admissionregistrationv1.Validation{
			forbidden(
				"variables.role in ['', '"+wire.RolePublisher+"', '"+wire.RoleNone+"']",
				"label "+wire.LabelRole+" is neither "+wire.RolePublisher+" nor "+wire.RoleNone+"; it has no effect", "",
			),
			forbidden(
				"variables.role != '"+wire.RolePublisher+"' ||\n"+
					namespaceHas(wire.LabelPublishers, wire.PublishersEnabled)+" ||\n"+
					"request.namespace + '/' + variables.account in "+l.publishers,
				"label "+wire.LabelRole+": "+wire.RolePublisher+" gives no token here: the namespace is not labelled "+
					wire.LabelPublishers+": "+wire.PublishersEnabled+"; ask the platform team", "",
			),
		},
		actions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Warn},
	}
}
