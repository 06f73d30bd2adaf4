package policy

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"github.com/lanyard-k8s/lanyard/api/wire"
)

// protectedAudiences lets a pod project a token for the publishers' or the jobs' audience only if it is entitled to it, in
// every namespace and whatever the volume is called: the kubelet would mint such a token for any pod that asks.
func protectedAudiences(l literals) rule {
	return rule{
		name:       ProtectedAudience,
		match:      []admissionregistrationv1.NamedRuleWithOperations{ruleFor("", operations(admissionregistrationv1.Create), "pods")},
		conditions: []admissionregistrationv1.MatchCondition{{Name: "projects-a-protected-audience", Expression: projects(l.protected)}},
		variables: []admissionregistrationv1.Variable{
			variable("account", serviceAccount),
			variable("username", "'system:serviceaccount:' + request.namespace + ':' + variables.account"),
			variable("role", label("object", wire.LabelRole)),
			variable("controllers", controllerKinds),
		},
		validations: []admissionregistrationv1.Validation{
			forbidden(
				"!("+projectsOne(l.publisherAudience)+") ||\n"+publisherEntitled(l),
				"the pod asks for a token of the health-event publishers' audience and is not one of them; remove the projected "+
					"serviceAccountToken, or ask the platform team to list the service account under publishers",
				"'the pod projects a token for audience ' + "+l.publisherAudience+" + ', and neither is service account ' + request.namespace + '/' + variables.account + "+
					"' a listed publisher nor does the pod have the publisher role here; remove that projected volume, or ask the platform team to list the account under publishers'",
			),
			forbidden(
				"!("+projectsOne(l.jobAudience)+") ||\n"+jobEntitled(l),
				"the pod asks for a token of the managed jobs' audience and is not a managed job's pod; remove the projected serviceAccountToken",
				"'the pod projects a token for audience ' + "+l.jobAudience+" + ', which only pods of managed jobs may have; remove that projected volume "+
					"(in a managed namespace the platform adds it to every job that does not opt out)'",
			),
		},
		actions: deny(),
	}
}

// publisherEntitled: on the list, or of the role in a namespace that offers it, or a cross-node publisher, or Lanyard's own.
func publisherEntitled(l literals) string {
	return "request.namespace + '/' + variables.account in " + l.publishers + " ||\n" +
		"variables.username in " + l.publisherAccounts + " ||\n" +
		"variables.username in " + l.releaseAccounts + " ||\n" +
		"(variables.role == '" + wire.RolePublisher + "' && " + namespaceHas(wire.LabelPublishers, wire.PublishersEnabled) + ")"
}

// jobEntitled: in a managed namespace, not opted out, and bare or controlled by a job kind; or Lanyard's own.
func jobEntitled(l literals) string {
	return "variables.username in " + l.releaseAccounts + " ||\n" +
		"(variables.role != '" + wire.RoleNone + "' &&\n" +
		" variables.controllers.all(kind, kind in " + l.kinds + ") &&\n" +
		" !(request.namespace in " + l.excluded + ") &&\n" +
		" " + namespaceHas(wire.LabelJobs, wire.JobsManaged) + ")"
}

// tokenRequests (P5) keeps the token API from handing out a protected audience to anyone but kubelets, which ask for what a
// pod projects, and the listed identities.
func tokenRequests(l literals) rule {
	return rule{
		name:  TokenRequests,
		match: []admissionregistrationv1.NamedRuleWithOperations{ruleFor("", operations(admissionregistrationv1.Create), "serviceaccounts/token")},
		conditions: []admissionregistrationv1.MatchCondition{{
			Name: "asks-for-a-protected-audience", Expression: "object.?spec.?audiences.orValue([]).exists(a, a in " + l.protected + ")",
		}},
		validations: []admissionregistrationv1.Validation{forbidden(
			byNode+" ||\nrequest.userInfo.?username.orValue('') in "+l.tokenRequesters,
			"the token request names an audience that Lanyard protects; such tokens are projected into the pods that are entitled to "+
				"them and handed out in no other way (the platform team may list an identity under admission.tokenRequesters)",
			"",
		)},
		actions: deny(),
	}
}
