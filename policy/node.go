package policy

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"github.com/lanyard-k8s/lanyard/api/wire"
)

// nodeStatus (P7) holds the socket connector to the node that it runs on. RBAC can only give it every node; the API server
// knows from its token which node its pod is on. There it may write conditions that are its own, and Events about the node;
// every other change to a node is refused, so that a connector that was taken over has no power beyond its own machine, and
// none over what the scheduler believes of that.
func nodeStatus(l literals) rule {
	cluster := admissionregistrationv1.ClusterScope
	nodes := ruleFor("", operations(admissionregistrationv1.OperationAll), "nodes", "nodes/*")
	nodes.Scope = &cluster
	events := ruleFor("", operations(admissionregistrationv1.Create, admissionregistrationv1.Update), "events")
	return rule{
		name:          NodeStatus,
		connectorOnly: true,
		match:         []admissionregistrationv1.NamedRuleWithOperations{nodes, events},
		conditions: []admissionregistrationv1.MatchCondition{{
			Name: "is-the-socket-connector", Expression: "request.userInfo.?username.orValue('') == " + l.socketConnector,
		}},
		variables:   nodeStatusVariables(l),
		validations: nodeStatusValidations(),
		actions:     deny(),
	}
}

// nodeStatusVariables work out whose node it is and which conditions the request touches. An entry that stands unchanged in
// the old list is not touched; one that is new, changed or gone is.
func nodeStatusVariables(l literals) []admissionregistrationv1.Variable {
	return []admissionregistrationv1.Variable{
		variable("claims", "request.userInfo.?extra[?'"+wire.ExtraNodeName+"'].orValue([])"),
		variable("own", "variables.claims.size() == 1 ? variables.claims[0] : ''"),
		variable("onNode", "request.resource.resource == 'nodes'"),
		variable("onStatus", "variables.onNode && request.operation == 'UPDATE' && request.?subResource.orValue('') == 'status'"),
		variable("status", "dyn(object == null ? {} : object.?status.orValue({}))"),
		variable("oldStatus", "dyn(oldObject == null ? {} : oldObject.?status.orValue({}))"),
		variable("conditions", "variables.status.?conditions.orValue([])"),
		variable("oldConditions", "variables.oldStatus.?conditions.orValue([])"),
		variable("written", "variables.conditions.filter(c, !variables.oldConditions.exists(o, o == c))"),
		variable("overwritten", "variables.oldConditions.filter(o, !variables.conditions.exists(c, c == o))"),
		variable("foreign", quoted(wire.KubeletConditions())+" + "+l.foreignConditions),
	}
}

func nodeStatusValidations() []admissionregistrationv1.Validation {
	const leave = "; it writes conditions of its own on the node that it runs on, and nothing else"
	return []admissionregistrationv1.Validation{
		forbidden(
			"variables.own != ''",
			"the connector's token does not name the one node that its pod runs on; it must be a token that the kubelet projects into that pod", "",
		),
		forbidden(
			"!variables.onNode || (variables.onStatus && object.metadata.name == variables.own)",
			"the socket connector may change no other node than its own, and that by its status alone"+leave,
			"'the socket connector on node ' + "+shortened("variables.own")+" + ' may change no other node than that, and that by its status alone"+leave+"'",
		),
		forbidden(
			"!variables.onStatus ||\n("+sameBut("dyn(object)", "dyn(oldObject)", "metadata", "status")+" &&\n"+
				sameBut("dyn(object.metadata)", "dyn(oldObject.metadata)", "managedFields", "resourceVersion")+" &&\n"+
				sameBut("variables.status", "variables.oldStatus", "conditions")+")",
			"the socket connector may change nothing of a node but status.conditions", "",
		),
		forbidden(
			"!variables.onStatus ||\n(variables.written + variables.overwritten).all(c,\n"+
				"  c.type.matches('"+wire.ConditionTypePattern+"') && !(c.type in variables.foreign) &&\n"+
				"  c.?reason.orValue('') in [c.type + '"+wire.ReasonHealthySuffix+"', c.type + '"+wire.ReasonUnhealthySuffix+"'])",
			"the socket connector may not add, change or remove a condition that is the kubelet's, of a foreign type or without a reason of its own "+
				"(the type with "+wire.ReasonHealthySuffix+" or "+wire.ReasonUnhealthySuffix+" after it)",
			"'the socket connector may not add, change or remove these conditions: ' + "+
				shortened("(variables.written + variables.overwritten).map(c, c.type).join(', ')")+
				" + ' (one of them is the kubelet\\'s, of a foreign type or without a reason of its own)'",
		),
		forbidden(
			"variables.onNode ||\n("+aboutOwnNode("object")+" &&\n(oldObject == null || "+aboutOwnNode("oldObject")+"))",
			"the socket connector may write Events about the node that it runs on, and about nothing else", "",
		),
	}
}

// sameBut says whether two mappings hold the same under every key but the given ones. Keys are not enumerated: what a later
// Kubernetes adds is compared, too.
func sameBut(a, b string, keys ...string) string {
	but := quoted(keys)
	return a + ".all(k, k in " + but + " || (k in " + b + " && " + a + "[k] == " + b + "[k])) && " + b + ".all(k, k in " + but + " || k in " + a + ")"
}

// aboutOwnNode says whether an Event is about the core Node that the connector runs on.
func aboutOwnNode(event string) string {
	of := event + ".?involvedObject"
	return "(" + of + ".?kind.orValue('') == 'Node' && " + of + ".?name.orValue('') == variables.own && " + of + ".?apiVersion.orValue('') in ['', 'v1'])"
}
