// Package doctor examines an installation of Lanyard. Examine is a pure function over a Snapshot of the cluster's objects:
// it says what is missing or dangerous, what that means and what to do. It reads no cluster and no clock; room
// doctor/intake takes the snapshot. What could not be read becomes a finding of its own and never passes for healthy.
package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Severity ranks a finding. The zero value is not used.
type Severity string

const (
	// OK: the check found nothing wrong.
	OK Severity = "ok"
	// Warn: something to look at; nothing is broken for certain.
	Warn Severity = "warn"
	// Fail: a guard is missing or open, or the webhook cannot work.
	Fail Severity = "fail"
)

func (s Severity) rank() int {
	switch s {
	case Fail:
		return 0
	case Warn:
		return 1
	default:
		return 2
	}
}

// Check names what was looked at; its text is stable and meant for programs.
type Check string

// The checks, in the order in which they are made.
const (
	CheckVersion      Check = "kubernetes_version"
	CheckInstallation Check = "installation"
	CheckSettings     Check = "settings"
	CheckWebhooks     Check = "webhook_entries"
	CheckCABundle     Check = "ca_bundle"
	CheckCertificates Check = "certificates"
	CheckIssuance     Check = "cert_manager"
	CheckEndpoints    Check = "webhook_endpoints"
	CheckPolicies     Check = "policies"
	CheckNamespaces   Check = "namespaces"
	CheckCA           Check = "ca_certificate"
	CheckAdmins       Check = "platform_admins"
	CheckGuardEditors Check = "guard_editors"
	CheckTokens       Check = "token_requests"
	CheckImpersonate  Check = "impersonation"
	CheckOwnAccounts  Check = "own_accounts"
	CheckAudiences    Check = "protected_audiences"
	CheckInjection    Check = "injection"
	CheckStamps       Check = "creator_stamps"
)

// Finding is one answer. Subject is the object it is about ("ValidatingAdmissionPolicy/lanyard-token-requests"), Message
// says what was found and what it means, Advice what to do; both are empty of any Secret's or variable's content.
type Finding struct {
	Check    Check    `json:"check"`
	Severity Severity `json:"severity"`
	Subject  string   `json:"subject,omitempty"`
	Message  string   `json:"message"`
	Advice   string   `json:"advice,omitempty"`
}

// examination is one check: what it needs to have been read, what it says when nothing is wrong, and the check itself.
type examination struct {
	check   Check
	needs   []Source
	healthy string
	examine func(Snapshot) []Finding
}

func examinations() []examination {
	return []examination{
		{CheckVersion, []Source{SourceVersion}, "the API server's version has every API that the guards need", examineVersion},
		{CheckInstallation, []Source{SourceWebhooks}, "an installation of Lanyard was found", examineInstallation},
		{CheckSettings, []Source{SourceSettings}, "the webhook's configuration was found", func(Snapshot) []Finding { return nil }},
		{CheckWebhooks, []Source{SourceWebhooks}, "every entry of the webhook is registered as it must be", examineWebhooks},
		{CheckCABundle, []Source{SourceWebhooks}, "every entry trusts the webhook's serving certificate", examineCABundles},
		{CheckCertificates, []Source{SourceSecrets}, "the certificates are valid and not about to expire", examineCertificates},
		{CheckIssuance, []Source{SourceIssuance}, "cert-manager has issued every certificate of the release that it was asked for", examineIssuance},
		{CheckEndpoints, []Source{SourceWebhooks, SourceEndpoints}, "the webhook has ready endpoints", examineEndpoints},
		{CheckPolicies, []Source{SourcePolicies}, "every policy and binding is in force as it must be", examinePolicies},
		{CheckNamespaces, []Source{SourceNamespaces}, "labels and lists of namespaces agree", examineNamespaces},
		{CheckCA, []Source{SourceNamespaces, SourceRBAC, SourceSettings, SourceCA}, "every managed namespace has the CA certificate that its jobs trust", examineCA},
		{CheckAdmins, []Source{SourceRBAC}, "nobody but cluster admins is a platform admin", examineAdmins},
		{CheckGuardEditors, []Source{SourceRBAC}, "nobody unexpected may change webhook configurations or policies", examineGuardEditors},
		{CheckTokens, []Source{SourceRBAC, SourceNamespaces}, "nobody unexpected may request tokens of service accounts", examineTokenRequests},
		{CheckImpersonate, []Source{SourceRBAC}, "nobody unexpected may impersonate users", examineImpersonation},
		{CheckOwnAccounts, []Source{SourceRBAC}, "Lanyard's own accounts hold nothing that they should not", examineOwnAccounts},
		{CheckAudiences, []Source{SourcePods, SourceNamespaces, SourceSettings}, "no pod projects a protected audience without being entitled to it", examineAudiences},
		{CheckInjection, []Source{SourcePods, SourceNamespaces}, "every pod that is entitled to a token carries it", examineInjection},
		{CheckStamps, []Source{SourceJobs, SourceNamespaces}, "everything in managed namespaces that acts for somebody bears its creator's stamp", examineStamps},
	}
}

// Checks lists every check once.
func Checks() []Check {
	var checks []Check
	for _, e := range examinations() {
		checks = append(checks, e.check)
	}
	return checks
}

// Examine makes every check. Each check gives at least one finding: what is wrong, that something could not be read, or
// that all is well.
func Examine(s Snapshot) []Finding {
	var all []Finding
	for _, e := range examinations() {
		found := unread(e, s)
		if found == nil {
			found = e.examine(s)
		}
		if len(found) == 0 {
			found = []Finding{{Severity: OK, Message: e.healthy}}
		}
		for i := range found {
			found[i].Check = e.check
		}
		slices.SortStableFunc(found, func(a, b Finding) int {
			return cmp.Or(cmp.Compare(a.Severity.rank(), b.Severity.rank()), cmp.Compare(a.Subject, b.Subject))
		})
		all = append(all, found...)
	}
	return all
}

// unread says which of a check's sources could not be read; the check is then not made.
func unread(e examination, s Snapshot) []Finding {
	var found []Finding
	for _, source := range e.needs {
		why, missing := s.Unread[source]
		if !missing {
			continue
		}
		found = append(found, Finding{
			Severity: Warn,
			Subject:  string(source),
			Message:  fmt.Sprintf("not examined: %s could not be read: %s", source, why),
			Advice:   "run doctor as somebody who may read this, for example a cluster admin",
		})
	}
	return found
}

// Failed says whether any finding fails.
func Failed(found []Finding) bool {
	return slices.ContainsFunc(found, func(f Finding) bool { return f.Severity == Fail })
}

// few joins names, at most ten of them.
func few(names []string) string {
	const most = 10
	slices.Sort(names)
	names = slices.Compact(names)
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}
