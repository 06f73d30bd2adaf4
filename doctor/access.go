package doctor

import (
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/lanyard-k8s/lanyard/api/wire"
)

const admissionGroup = "admissionregistration.k8s.io"

// clusterAdmin says whether a rule grants everything: its holder need not be told apart by what else it could do.
func clusterAdmin(rule rbacv1.PolicyRule) bool {
	return slices.Contains(rule.Verbs, "*") && slices.Contains(rule.APIGroups, "*") && slices.Contains(rule.Resources, "*")
}

// judge sorts holders of a dangerous right: nothing to say of the control plane, a failure where anybody or any workload
// holds it, else a list for a person to read.
func judge(holders []holder, subject, means, advice string, expected func(holder) bool) []Finding {
	var open, named []string
	for _, h := range holders {
		switch {
		case everybody(h.subject):
			open = append(open, h.String())
		case controlPlane(h.subject) || expected(h):
		default:
			named = append(named, h.String())
		}
	}
	var found []Finding
	if len(open) > 0 {
		found = append(found, Finding{
			Severity: Fail, Subject: subject, Advice: advice,
			Message: "held by everybody or every workload: " + few(open) + ". " + means,
		})
	}
	if len(named) > 0 {
		found = append(found, Finding{
			Severity: Warn, Subject: subject, Advice: advice,
			Message: "held by " + few(named) + ". " + means,
		})
	}
	return found
}

// examineAdmins lists the platform admins that are not cluster admins anyway.
func examineAdmins(s Snapshot) []Finding {
	return judge(
		s.holders(right{wire.AdminVerb, wire.AdminGroup, wire.AdminResource}),
		wire.AdminVerb+" "+wire.AdminGroup+"/"+wire.AdminResource,
		"A platform admin may label namespaces and change what the guards keep from others.",
		"keep to people whom you trust with the platform: kubectl get clusterrolebindings -o wide",
		func(h holder) bool { return clusterAdmin(h.rule) && h.subject.Kind != rbacv1.ServiceAccountKind },
	)
}

// examineGuardEditors lists who can switch the guards off.
func examineGuardEditors(s Snapshot) []Finding {
	var rights []right
	for _, resource := range []string{
		"mutatingwebhookconfigurations", "validatingwebhookconfigurations",
		"validatingadmissionpolicies", "validatingadmissionpolicybindings",
	} {
		for _, verb := range []string{"create", "update", "patch", "delete", "deletecollection"} {
			rights = append(rights, right{verb, admissionGroup, resource})
		}
	}
	return judge(
		clusterWide(s.holders(rights...)), "write "+admissionGroup,
		"They can switch Lanyard's webhooks and policies off.",
		"bind these rights to named objects, or to people whom you trust with the cluster",
		func(h holder) bool {
			// The cainjector writes caBundle, and nothing else in the cluster needs these rights all day.
			return (clusterAdmin(h.rule) && h.subject.Kind != rbacv1.ServiceAccountKind) || h.subject.Name == "cert-manager-cainjector"
		},
	)
}

// clusterWide drops what a RoleBinding grants, which never reaches objects outside namespaces.
func clusterWide(holders []holder) []holder {
	return slices.DeleteFunc(holders, func(h holder) bool { return h.namespace != "" })
}

// examineTokenRequests lists who may make tokens of service accounts where publishers or jobs live, or everywhere.
func examineTokenRequests(s Snapshot) []Finding {
	return s.inServed(
		[]right{{"create", "", "serviceaccounts/token"}}, "create serviceaccounts/token",
		"Policy lanyard-token-requests keeps the protected audiences from them, and it alone.",
		"remove the right where it is not needed; the built-in roles edit and admin contain it",
	)
}

// examineImpersonation lists who may act as somebody else: the stamp then names the other.
func examineImpersonation(s Snapshot) []Finding {
	return s.inServed(
		[]right{{"impersonate", "", "users"}, {"impersonate", "", "serviceaccounts"}}, "impersonate",
		"Whoever may impersonate submits jobs in another's name.",
		"leave it to the platform that submits for its users, bound to named users; the built-in roles edit and admin contain it for service accounts",
	)
}

// inServed judges rights that hold in the whole cluster or in a namespace that Lanyard serves.
func (s Snapshot) inServed(rights []right, subject, means, advice string) []Finding {
	served := s.managed()
	for name := range s.publishers() {
		served[name] = true
	}
	holders := slices.DeleteFunc(s.holders(rights...), func(h holder) bool {
		return h.namespace != "" && !served[h.namespace]
	})
	return judge(holders, subject, means, advice, func(h holder) bool {
		return clusterAdmin(h.rule) && h.subject.Kind != rbacv1.ServiceAccountKind
	})
}

// forbidden are the rights that no program of Lanyard's needs, each with what it would allow.
func forbidden() map[right]string {
	return map[right]string{
		{"create", "", "serviceaccounts/token"}:                         "make tokens of any account",
		{"impersonate", "", "users"}:                                    "act as anybody",
		{"impersonate", "", "serviceaccounts"}:                          "act as any workload",
		{"impersonate", "", "groups"}:                                   "act as any group",
		{"create", "", "pods"}:                                          "run pods under any account",
		{"create", "", "pods/exec"}:                                     "run commands in pods",
		{"patch", "", "namespaces"}:                                     "label namespaces",
		{"update", "", "namespaces"}:                                    "label namespaces",
		{"list", "", "secrets"}:                                         "read Secrets",
		{"create", "rbac.authorization.k8s.io", "clusterrolebindings"}:  "grant itself anything",
		{"escalate", "rbac.authorization.k8s.io", "clusterroles"}:       "grant itself anything",
		{"bind", "rbac.authorization.k8s.io", "clusterroles"}:           "grant itself anything",
		{wire.AdminVerb, wire.AdminGroup, wire.AdminResource}:           "pass its own guards",
		{"update", admissionGroup, "mutatingwebhookconfigurations"}:     "change webhooks",
		{"update", admissionGroup, "validatingwebhookconfigurations"}:   "change webhooks",
		{"update", admissionGroup, "validatingadmissionpolicies"}:       "change policies",
		{"update", admissionGroup, "validatingadmissionpolicybindings"}: "change policies",
		{"delete", admissionGroup, "validatingadmissionpolicies"}:       "remove policies",
		{"delete", admissionGroup, "validatingadmissionpolicybindings"}: "remove policies",
	}
}

// examineOwnAccounts looks at what Lanyard's own accounts were given beyond what the chart gives them.
func examineOwnAccounts(s Snapshot) []Finding {
	if s.Release == "" {
		return nil
	}
	excess := map[string][]string{}
	for _, g := range s.granted() {
		for _, subject := range g.subjects {
			if subject.Kind != rbacv1.ServiceAccountKind || subject.Namespace != s.Release {
				continue
			}
			h := holder{subject: subject, namespace: g.namespace, via: g.via}
			for r, means := range forbidden() {
				if grants(g.rule, r) && len(g.rule.ResourceNames) == 0 {
					excess[h.String()] = append(excess[h.String()], means)
				}
			}
		}
	}
	var found []Finding
	for who, means := range excess {
		found = append(found, Finding{
			Severity: Fail, Subject: who,
			Message: "an account in Lanyard's own namespace may " + few(means) + ", which none of its programs needs",
			Advice:  "remove the binding; keep other programs out of Lanyard's namespace",
		})
	}
	return found
}
