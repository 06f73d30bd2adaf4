// Package policy builds Lanyard's ValidatingAdmissionPolicies and their bindings. They run inside the API server, so they
// hold when the webhook is down, forged or gone: they are what makes a creator stamp true, what keeps the protected
// audiences to those who are entitled to them, and what keeps the namespace labels in the hands of the platform's admins.
//
// One builder per policy writes its CEL with literals in place (no paramRef: a missing parameter object must never weaken
// a guard). The same builders, given Helm actions in place of the literals, write the chart's template; so the chart, and
// any program that wants to know what the chart must have installed, cannot disagree about a policy.
package policy

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"github.com/lanyard-k8s/lanyard/api/wire"
)

// The names of the policies; each binding has its policy's name. They never change: alerts, documents and the drift check
// name them.
const (
	ReservedNames     = "lanyard-reserved-names"
	ProtectedAudience = "lanyard-protected-audiences"
	TokenRequests     = "lanyard-token-requests"
	NamespaceLabels   = "lanyard-namespace-labels"
	InjectedLabel     = "lanyard-injected-label"
	CreatorStamp      = "lanyard-creator-stamp"
	CreatorRequired   = "lanyard-creator-required"
	BindingMetadata   = "lanyard-binding-metadata"
	RoleWithoutRight  = "lanyard-role-without-right"
	JobPods           = "lanyard-job-pods"
	Owners            = "lanyard-owners"
	ManagedPods       = "lanyard-managed-pods"
	PodAccess         = "lanyard-pod-access"
	JobTemplates      = "lanyard-job-templates"
	NodeStatus        = wire.PolicyNodeStatus
)

// Policy is a policy with the binding that puts it into force.
type Policy struct {
	Policy  *admissionregistrationv1.ValidatingAdmissionPolicy
	Binding *admissionregistrationv1.ValidatingAdmissionPolicyBinding
}

// All returns every policy that the settings call for, in a fixed order. Without jobs the policies of the creator stamp
// and of provenance are left out, and without the socket connector's name the policy that fences it; the others always stand.
func All(s Settings) []Policy {
	var all []Policy
	for _, r := range rules(literalsOf(s)) {
		if (r.jobsOnly && !s.Jobs) || (r.connectorOnly && s.SocketConnector == "") {
			continue
		}
		all = append(all, r.policy())
	}
	return all
}

// rules returns every rule, jobs or not, in the order in which they are installed: the guards that others lean on first.
func rules(l literals) []rule {
	return []rule{
		namespaceLabels(),
		creatorStamp(l),
		creatorRequired(l),
		bindingMetadata(l),
		jobPods(l),
		owners(l),
		managedPods(l),
		podAccess(l),
		jobTemplates(l),
		protectedAudiences(l),
		tokenRequests(l),
		injectedLabel(l),
		reservedNames(l),
		roleWithoutRight(l),
		nodeStatus(l),
	}
}
