package policy

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
)

// managedPods (P3) keeps running pods what they were when they were admitted. Another image, or a debug container, would
// read the job's token from within the pod that was given it.
func managedPods(l literals) rule {
	unchanged := func(list string) string {
		return "object.spec.?" + list + ".orValue([]).all(c, oldObject.spec.?" + list + ".orValue([]).exists(o,\n" +
			"  o.name == c.name && o.?image.orValue('') == c.?image.orValue('')))"
	}
	return rule{
		name:     ManagedPods,
		jobsOnly: true,
		match: []admissionregistrationv1.NamedRuleWithOperations{
			ruleFor("", operations(admissionregistrationv1.Update), "pods", "pods/ephemeralcontainers"),
		},
		variables: []admissionregistrationv1.Variable{variable("debugs", "request.?subResource.orValue('') == 'ephemeralcontainers'")},
		validations: []admissionregistrationv1.Validation{
			forbidden(
				"variables.debugs ||\n("+unchanged("containers")+" &&\n"+unchanged("initContainers")+")",
				"the images of a pod in a managed namespace never change, since another program would go on with the job's identity; delete the pod or the job and create it again", "",
			),
			forbidden(
				"!variables.debugs || "+admin,
				"debug containers in a managed namespace are added by platform admins only, since they share the job's identity; "+
					"read its logs, debug a copy in another namespace, or ask the platform team", "",
			),
		},
		namespaces: managed(l),
		actions:    deny(),
	}
}

// podAccess (P4) keeps people out of running pods, where they could take the job's token and call in its submitter's name. A
// CONNECT carries no pod, so it cannot be told which pods have an identity: all in a managed namespace are closed.
func podAccess(l literals) rule {
	return rule{
		name:     PodAccess,
		jobsOnly: true,
		match: []admissionregistrationv1.NamedRuleWithOperations{
			ruleFor("", operations(admissionregistrationv1.Connect), "pods/exec", "pods/attach", "pods/portforward", "pods/proxy", "services/proxy"),
		},
		validations: []admissionregistrationv1.Validation{forbidden(
			admin,
			"exec, attach, port-forward and proxy are for platform admins in a managed namespace, since they reach into pods that act for the people who submitted them; "+
				"read the logs, expose what the job serves by a Service of its own, or ask the platform team",
			"'pods' + (request.resource.resource == 'services' ? ' behind services' : '') + ' in a managed namespace act for the people who submitted them, so ' + "+
				"request.?subResource.orValue('') + ' is for platform admins; read the logs, expose what the job serves by a Service of its own, or ask the platform team'",
		)},
		namespaces: managed(l),
		actions:    deny(),
	}
}
