package policy

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"github.com/lanyard-k8s/lanyard/api/wire"
)

// stampKey is the annotation that records who created an object.
const stampKey = wire.AnnotationCreatedBy

// stampOn says whether an object bears a stamp, an empty one included.
func stampOn(object string) string {
	return "'" + stampKey + "' in " + object + ".metadata.?annotations.orValue({})"
}

// stampedBefore says so of the old object, which a CREATE does not have.
const stampedBefore = "oldObject != null && '" + stampKey + "' in oldObject.metadata.?annotations.orValue({})"

// creatorStamp (P0a) makes a stamp true wherever it stands, in every namespace: on CREATE it is the username that the API
// server authenticated, afterwards it is what it was. A namespace that becomes managed later holds no forged stamps.
func creatorStamp(l literals) rule {
	return rule{
		name:       CreatorStamp,
		jobsOnly:   true,
		match:      l.stamped,
		conditions: []admissionregistrationv1.MatchCondition{{Name: "bears-a-stamp", Expression: stampOn("object") + " || (" + stampedBefore + ")"}},
		validations: []admissionregistrationv1.Validation{
			forbidden(
				"request.operation != 'CREATE' ||\n"+
					annotation("object", stampKey)+".orValue('') == request.userInfo.?username.orValue('') && request.userInfo.?username.orValue('') != ''",
				"annotation "+stampKey+" names somebody else: it is written by the platform and records who created the object; remove it from your manifest", "",
			),
			forbidden(
				"request.operation == 'CREATE' ||\n"+annotation("object", stampKey)+" == "+annotation("oldObject", stampKey),
				"annotation "+stampKey+" was written by the platform when the object was created and is never added, changed or removed afterwards; leave it as it is", "",
			),
		},
		actions: deny(),
	}
}

// creatorRequired (P0b) demands a stamp on everything that may come to act for a person in a managed namespace, and a
// creator who may be that person.
func creatorRequired(l literals) rule {
	return rule{
		name:     CreatorRequired,
		jobsOnly: true,
		match:    l.stamped,
		variables: []admissionregistrationv1.Variable{
			variable("creator", "request.operation == 'CREATE' ? request.userInfo.?username.orValue('') :\n"+annotation("object", stampKey)+".orValue('')"),
			variable("pod", "request.kind.group == '' && request.kind.kind == 'Pod'"),
			variable("podMetadata", pathTo("object", "metadata")),
			variable("role", "variables.podMetadata.?labels[?'"+wire.LabelRole+"'].orValue('')"),
			variable("optedOut", "variables.role == '"+wire.RoleNone+"' && request.kind.group in ['', 'batch']"),
			variable("oldPodMetadata", "oldObject == null ? {} :\n"+pathTo("oldObject", "metadata")),
			variable("optsIn", "request.operation != 'CREATE' && !variables.pod && variables.role != '"+wire.RoleNone+"' &&\n"+
				"variables.oldPodMetadata.?labels[?'"+wire.LabelRole+"'].orValue('') == '"+wire.RoleNone+"'"),
			variable("controllers", controllerKinds),
			variable("person", "!variables.creator.lowerAscii().startsWith('system:') && !variables.creator.lowerAscii().startsWith('service:')"),
		},
		validations: []admissionregistrationv1.Validation{
			forbidden(
				"request.operation != 'CREATE' || "+stampOn("object"),
				"the object was not stamped with its creator: Lanyard's webhook configuration is missing or did not reach it. "+
					"Your manifest is fine; tell the platform team", "",
			),
			forbidden(
				"request.operation == 'CREATE' || !("+stampedBefore+") || "+stampOn("object"),
				"annotation "+stampKey+" records who created the object and is never removed; leave it as it is", "",
			),
			mayNotSubmit(l),
		},
		namespaces: managed(l),
		actions:    deny(),
	}
}

// mayNotSubmit refuses creators that cannot be anyone's submitter. Not asked are controllers (pod creators, delegating
// controllers), whose objects belong to their owners' submitters, pods with a controller whose pods get no identity, work that
// opted out of it, and kubelets with their static pods. Whoever takes the opt-out off a template later is asked what its creator may
// do: templates of suspended Jobs and of CronJobs can be edited, and their pods would then act for that creator. Only built-in
// kinds can opt out: where a custom kind keeps its templates is not known here, and a label elsewhere in it means nothing.
func mayNotSubmit(l literals) admissionregistrationv1.Validation {
	ways := "let the platform team list the account under allowedSubmitterServiceAccounts, impersonate the user you submit for " +
		"(kubectl --as, Impersonate-User), or label the pod template " + wire.LabelRole + ": " + wire.RoleNone + " if the work needs no identity"
	return forbidden(
		"(request.operation != 'CREATE' && !variables.optsIn) ||\n"+
			"variables.person ||\n"+
			"variables.creator in "+l.submitters+" ||\n"+
			"variables.creator in "+l.controllers+" ||\n"+
			"variables.optedOut ||\n"+
			"(variables.pod && variables.controllers.exists(kind, !(kind in "+l.kinds+"))) ||\n"+
			"(variables.pod && "+mirror+")",
		"this creator may not submit work that acts for a person. Three ways out: "+ways,
		"variables.creator + ' may not submit work that acts for a person. Three ways out: "+ways+"'",
	)
}

// bindingMetadata keeps a Binding from writing what the policies guard: the API server copies its annotations, and from
// 1.35 its labels, onto the pod without an admission of the pod itself.
func bindingMetadata(l literals) rule {
	return rule{
		name:     BindingMetadata,
		jobsOnly: true,
		match: []admissionregistrationv1.NamedRuleWithOperations{
			ruleFor("", operations(admissionregistrationv1.Create), "pods/binding", "bindings"),
		},
		validations: []admissionregistrationv1.Validation{forbidden(
			"object.metadata.?annotations.orValue({}).all(k, !k.startsWith('"+wire.Prefix+"') && !(k in "+l.adoptionLabels+")) &&\n"+
				"object.metadata.?labels.orValue({}).all(k, !k.startsWith('"+wire.Prefix+"') && !(k in "+l.adoptionLabels+"))",
			"a Binding is copied onto its pod and may carry no "+wire.Prefix+" key and no label by which a controller adopts pods; remove it", "",
		)},
		actions: deny(),
	}
}
