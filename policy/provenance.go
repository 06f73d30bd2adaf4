package policy

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"github.com/lanyard-k8s/lanyard/api/wire"
)

// Which pod belongs to whose work is read from two things: the controller's owner reference, and the labels by which a
// controller adopts pods. Both are written by anybody who may write the object, so two policies make them true: jobPods when
// a pod is created, owners for ever after.

// The usernames of the garbage collector: with an account of its own, and under --use-service-account-credentials=false.
const (
	collectorAccount  = wire.UsernamePrefix + "kube-system:generic-garbage-collector"
	controllerManager = "system:kube-controller-manager"
)

// Adoption labels that end like this hold the owner's UID or name; the others hold what their controller likes.
const (
	uidSuffix  = "controller-uid"
	nameSuffix = "job-name"
)

// caller is who is asking, empty for nobody.
const caller = "request.userInfo.?username.orValue('')"

// groupKind is the "group/Kind" of owner reference o.
const groupKind = "(o.apiVersion.contains('/') ? o.apiVersion.split('/')[0] : '') + '/' + o.kind"

// controllersAmong are an object's controller references to kinds that are keys of the CEL map kinds.
func controllersAmong(object, kinds string) string {
	return object + ".metadata.?ownerReferences.orValue([]).filter(o, o.?controller.orValue(false) && (" + groupKind + ") in " + kinds + ")"
}

// jobPods (P1) leaves it to a kind's own controllers to create its pods, and holds them to say truly whose they are. Anybody
// else could put a pod of her own among somebody's job's pods, and that pod would act for the job's submitter.
func jobPods(l literals) rule {
	return rule{
		name:     JobPods,
		jobsOnly: true,
		match:    []admissionregistrationv1.NamedRuleWithOperations{ruleFor("", operations(admissionregistrationv1.Create), "pods")},
		variables: []admissionregistrationv1.Variable{
			variable("user", caller),
			variable("podCreators", l.podCreators),
			variable("labelCreators", l.labelCreators),
			variable("controllers", controllersAmong("object", "variables.podCreators")),
			variable("labels", "object.metadata.?labels.orValue({})"),
			variable("adopting", "variables.labels.map(k, k).filter(k, k in variables.labelCreators)"),
		},
		validations: []admissionregistrationv1.Validation{
			forbidden(
				"variables.controllers.all(o, variables.user in variables.podCreators["+groupKind+"])",
				"the pod names a job as its controller and was not created by the controller of jobs: such a pod would act for the job's submitter; "+
					"remove the ownerReference, or submit a Job and let its controller make the pods",
				"'the pod names ' + "+shortened("variables.controllers.map(o, o.kind + ' ' + o.name).join(', ')")+" + ' as its controller and was not created by the controller of that kind: "+
					"it would act for the submitter of that work; remove the ownerReference, or submit a Job and let its controller make the pods'",
			),
			forbidden(
				"variables.adopting.all(k, variables.user in variables.labelCreators[k])",
				"the pod bears a label by which a controller takes pods for those of a job, and that controller did not create it; remove the label",
				"'the pod bears ' + "+shortened("variables.adopting.join(', ')")+" + ', by which a controller takes pods for those of its jobs, and that controller did not create it; "+
					"remove the label (an exported pod of a job carries it)'",
			),
			forbidden(
				"variables.adopting.all(k,\n"+
					"  (!k.endsWith('"+uidSuffix+"') || variables.controllers.exists(o, o.uid == variables.labels[k])) &&\n"+
					"  (!k.endsWith('"+nameSuffix+"') || variables.controllers.exists(o, o.name == variables.labels[k])))",
				"the pod's labels name another job than the ownerReference of its controller does, so it is not clear whose pod it is; "+
					"the controller writes both: leave those labels out of the pod template", "",
			),
		},
		namespaces: managed(l),
		actions:    deny(),
	}
}

// owners (P2) keeps both marks as they were: nobody adds or changes a controller reference to a job kind or a parent, nor an
// adoption label, on any stamped kind, by any way. Only who is in charge of them takes them off: the garbage collector, and the
// kind's own controller. References to other owners are free, so that ReplicaSets go on adopting orphans. A Job without labels
// reads as if it bore its template's, its own UID and name among them; naming oneself makes nobody another's.
func owners(l literals) rule {
	return rule{
		name:       Owners,
		jobsOnly:   true,
		match:      l.stamped,
		conditions: []admissionregistrationv1.MatchCondition{{Name: "is-an-update", Expression: "request.operation == 'UPDATE'"}},
		variables: []admissionregistrationv1.Variable{
			variable("user", caller),
			variable("ownerKinds", l.ownerKinds),
			variable("labelCreators", l.labelCreators),
			variable("collecting", "variables.user in "+quoted([]string{collectorAccount, controllerManager})),
			variable("refs", controllersAmong("object", "variables.ownerKinds")),
			variable("oldRefs", controllersAmong("oldObject", "variables.ownerKinds")),
			variable("given", "variables.refs.filter(o, !variables.oldRefs.exists(x, "+sameOwner+"))"),
			variable("taken", "variables.oldRefs.filter(o, !variables.refs.exists(x, "+sameOwner+"))"),
			variable("labels", "object.metadata.?labels.orValue({})"),
			variable("oldLabels", "oldObject.metadata.?labels.orValue({})"),
			variable("own", "request.kind.group == '' && request.kind.kind == 'Pod' ? [] :\n"+
				"[object.metadata.?uid.orValue(''), object.metadata.?name.orValue('')]"),
			variable("labelled", "variables.labels.map(k, k).filter(k, k in variables.labelCreators && !(variables.labels[k] in variables.own) &&\n"+
				"  !(k in variables.oldLabels && variables.oldLabels[k] == variables.labels[k]))"),
			variable("unlabelled", "variables.oldLabels.map(k, k).filter(k, k in variables.labelCreators && !(variables.oldLabels[k] in variables.own) &&\n"+
				"  !(k in variables.labels))"),
		},
		validations: ownersValidations(),
		namespaces:  managed(l),
		actions:     deny(),
	}
}

// sameOwner compares owner reference o with x. blockOwnerDeletion says nothing about whose object it is, and the garbage
// collector changes it.
const sameOwner = "x.uid == o.uid && x.name == o.name && x.kind == o.kind &&\n" +
	"  (x.apiVersion.contains('/') ? x.apiVersion.split('/')[0] : '') == (o.apiVersion.contains('/') ? o.apiVersion.split('/')[0] : '')"

func ownersValidations() []admissionregistrationv1.Validation {
	const inCharge = " is only taken off by the garbage collector or the controller of its kind, since it tells whose work this is; leave it, or delete the object"
	return []admissionregistrationv1.Validation{
		forbidden(
			"variables.given.size() == 0",
			"a job or its parent becomes the controller of an object when that is created, and never afterwards; leave the ownerReferences as they are, or create the object anew",
			"'ownerReference to ' + "+shortened("variables.given.map(o, o.kind + ' ' + o.name).join(', ')")+" + ': jobs and their parents become controllers of an object when it is created, "+
				"and never afterwards; leave the ownerReferences as they are, or create the object anew'",
		),
		forbidden(
			"variables.labelled.size() == 0",
			"a label by which a controller adopts pods is never added or changed after creation; leave it as it is",
			shortened("variables.labelled.join(', ')")+" + ': a label by which a controller adopts pods is never added or changed after creation; leave it as it is'",
		),
		forbidden(
			"variables.collecting || variables.taken.all(o, variables.user in variables.ownerKinds["+groupKind+"])",
			"the ownerReference of a job or its parent"+inCharge, "",
		),
		forbidden(
			"variables.collecting || variables.unlabelled.all(k, variables.user in variables.labelCreators[k])",
			"a label by which a controller adopts pods"+inCharge, "",
		),
	}
}
