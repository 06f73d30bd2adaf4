package doctor

import (
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/lanyard-k8s/lanyard/api/wire"
)

// longestTimeout is the longest that a person who creates a pod may be kept waiting by one entry, in seconds.
const longestTimeout = 5

// entry is one webhook of either configuration, in one shape.
type entry struct {
	config        string // MutatingWebhookConfiguration or ValidatingWebhookConfiguration
	name          string
	client        admissionregistrationv1.WebhookClientConfig
	rules         []admissionregistrationv1.RuleWithOperations
	failurePolicy *admissionregistrationv1.FailurePolicyType
	matchPolicy   *admissionregistrationv1.MatchPolicyType
	reinvocation  *admissionregistrationv1.ReinvocationPolicyType
	sideEffects   *admissionregistrationv1.SideEffectClass
	timeout       *int32
	namespaces    *metav1.LabelSelector
	objects       *metav1.LabelSelector
	conditions    []admissionregistrationv1.MatchCondition
}

func (e entry) subject() string { return e.config + "/" + Name + " entry " + e.name }

const (
	mutatingConfig   = "MutatingWebhookConfiguration"
	validatingConfig = "ValidatingWebhookConfiguration"
)

// entries lists what is registered.
func (s Snapshot) entries() []entry {
	var all []entry
	if s.Mutating != nil {
		for _, w := range s.Mutating.Webhooks {
			all = append(all, entry{
				mutatingConfig, w.Name, w.ClientConfig, w.Rules, w.FailurePolicy, w.MatchPolicy, w.ReinvocationPolicy,
				w.SideEffects, w.TimeoutSeconds, w.NamespaceSelector, w.ObjectSelector, w.MatchConditions,
			})
		}
	}
	if s.Validating != nil {
		for _, w := range s.Validating.Webhooks {
			all = append(all, entry{
				validatingConfig, w.Name, w.ClientConfig, w.Rules, w.FailurePolicy, w.MatchPolicy, nil,
				w.SideEffects, w.TimeoutSeconds, w.NamespaceSelector, w.ObjectSelector, w.MatchConditions,
			})
		}
	}
	return all
}

// demand is what an entry must be.
type demand struct {
	config     string
	name       string
	path       string
	fail       bool   // failurePolicy Fail
	label      string // the namespace label that selects; empty for the listed publishers' entries
	value      string
	resources  []string // "OPERATION group/resource"
	conditions bool     // the entry has matchConditions by right
}

// demands lists the entries that the configured roles need.
func (s Snapshot) demands() []demand {
	const pods, debug = "CREATE /pods", "UPDATE /pods/ephemeralcontainers"
	var all []demand
	if s.jobRole() {
		managed := func(config, name, path string, fail bool, resources ...string) demand {
			return demand{config, name, path, fail, wire.LabelJobs, wire.JobsManaged, resources, false}
		}
		created, updated := s.stamped("CREATE"), s.stamped("UPDATE")
		all = append(all,
			managed(mutatingConfig, "job.mutate.lanyard.dev", wire.PathMutateJob, true, append([]string{pods}, created...)...),
			managed(mutatingConfig, "stamp.mutate.lanyard.dev", wire.PathMutateJob, false, updated...),
			managed(validatingConfig, "job.validate.lanyard.dev", wire.PathValidateJob, true, pods, debug),
			managed(validatingConfig, "template.validate.lanyard.dev", wire.PathValidateTemplate, false, append(created, updated...)...),
		)
	}
	if s.publisherRole() {
		enabled := func(config, name, path string, resources ...string) demand {
			return demand{config, name, path, true, wire.LabelPublishers, wire.PublishersEnabled, resources, true}
		}
		all = append(all,
			enabled(mutatingConfig, "publisher.mutate.lanyard.dev", wire.PathMutatePublisher, pods),
			enabled(validatingConfig, "publisher.validate.lanyard.dev", wire.PathValidatePublisher, pods, debug),
		)
	}
	if p := s.Settings.Rules.Publisher; p != nil && len(p.Listed) > 0 {
		all = append(all,
			demand{mutatingConfig, "listed.mutate.lanyard.dev", wire.PathMutateListed, true, "", "", []string{pods}, true},
			demand{validatingConfig, "listed.validate.lanyard.dev", wire.PathValidateListed, true, "", "", []string{pods, debug}, true},
		)
	}
	return all
}

// stamped gives the operation on every kind, besides pods, that bears the creator's stamp.
func (s Snapshot) stamped(operation string) []string {
	resources := s.Settings.Stamped
	if len(resources) == 0 {
		resources = []string{"batch/jobs"}
	}
	var all []string
	for _, r := range resources {
		all = append(all, operation+" "+r)
	}
	return all
}

// jobRole and publisherRole say whether a role is on. When the configuration could not be read, a role is taken to be on
// if any namespace is labelled for it or any of its entries is there.
func (s Snapshot) jobRole() bool {
	if _, unknown := s.Unread[SourceSettings]; unknown {
		return len(s.managed()) > 0 || s.registered("job.")
	}
	return s.Settings.Rules.Job != nil
}

func (s Snapshot) publisherRole() bool {
	if _, unknown := s.Unread[SourceSettings]; unknown {
		return len(s.publishers()) > 0 || s.registered("publisher.")
	}
	return s.Settings.Rules.Publisher != nil
}

func (s Snapshot) registered(prefix string) bool {
	return slices.ContainsFunc(s.entries(), func(e entry) bool { return strings.HasPrefix(e.name, prefix) })
}

func examineWebhooks(s Snapshot) []Finding {
	var found []Finding
	registered := s.entries()
	for _, d := range s.demands() {
		i := slices.IndexFunc(registered, func(e entry) bool { return e.config == d.config && e.name == d.name })
		if i < 0 {
			found = append(found, missingEntry(s, d))
			continue
		}
		found = append(found, s.examineEntry(registered[i], d)...)
	}
	return found
}

func missingEntry(s Snapshot, d demand) Finding {
	f := Finding{
		Severity: Fail, Subject: d.config + "/" + Name + " entry " + d.name,
		Message: "the entry is missing: the API server does not call the webhook for what it serves",
		Advice:  "upgrade the release with the chart; nothing else writes these entries",
	}
	if !d.fail {
		f.Severity = Warn
	}
	if (d.config == mutatingConfig && s.Mutating == nil) || (d.config == validatingConfig && s.Validating == nil) {
		f.Subject = d.config + "/" + Name
		f.Severity = Fail
		f.Message = "the webhook configuration is missing, its entry " + d.name + " with it: the API server does not call the webhook"
	}
	return f
}

// examineEntry holds a registered entry against what it must be.
func (s Snapshot) examineEntry(e entry, d demand) []Finding {
	var found []Finding
	say := func(severity Severity, message, advice string) {
		found = append(found, Finding{Severity: severity, Subject: e.subject(), Message: message, Advice: advice})
	}
	const upgrade = "upgrade the release with the chart, and find out who changed it"
	if d.fail && (e.failurePolicy == nil || *e.failurePolicy != admissionregistrationv1.Fail) {
		say(Fail, "failurePolicy is not Fail: while the webhook is away, pods get in without their token and unchecked", upgrade)
	}
	if e.timeout == nil || *e.timeout > longestTimeout {
		say(Warn, fmt.Sprintf("timeoutSeconds is above %d: an unreachable webhook delays every pod that long", longestTimeout), "set webhook.timeoutSeconds to 3")
	}
	if e.matchPolicy != nil && *e.matchPolicy != admissionregistrationv1.Equivalent {
		say(Fail, "matchPolicy is not Equivalent: a request through another API version escapes", upgrade)
	}
	if e.reinvocation != nil && *e.reinvocation != admissionregistrationv1.IfNeededReinvocationPolicy {
		say(Warn, "reinvocationPolicy is not IfNeeded: containers that a later webhook adds are not looked at", upgrade)
	}
	if e.sideEffects != nil && *e.sideEffects != admissionregistrationv1.SideEffectClassNone {
		say(Warn, "sideEffects is not None: server-side dry runs are refused", upgrade)
	}
	if !d.conditions && len(e.conditions) > 0 {
		say(Fail, "matchConditions keep requests from the webhook that it must see", upgrade)
	}
	if message := s.wrongTarget(e, d); message != "" {
		say(Fail, message, upgrade)
	}
	for _, r := range missingRules(e.rules, d.resources) {
		say(Fail, "no rule covers "+r+": these requests go unseen", upgrade)
	}
	return append(found, s.examineSelectors(e, d)...)
}

// wrongTarget says what is wrong with where an entry leads; empty when nothing is.
func (s Snapshot) wrongTarget(e entry, d demand) string {
	svc := e.client.Service
	switch {
	case svc == nil:
		return "clientConfig names a URL in place of the webhook's Service: someone else may be answering"
	case s.Release != "" && svc.Namespace != s.Release:
		return fmt.Sprintf("clientConfig leads to namespace %q, not to the release's: someone else may be answering", svc.Namespace)
	case svc.Path == nil || *svc.Path != d.path:
		return "clientConfig's path is not " + d.path + ": the path tells the webhook what the namespace is entitled to"
	}
	return ""
}

// missingRules gives those of the demanded "OPERATION group/resource" that no rule covers.
func missingRules(rules []admissionregistrationv1.RuleWithOperations, demanded []string) []string {
	var missing []string
	for _, want := range demanded {
		operation, rest, _ := strings.Cut(want, " ")
		group, resource, _ := strings.Cut(rest, "/")
		covered := slices.ContainsFunc(rules, func(r admissionregistrationv1.RuleWithOperations) bool {
			return hasOrAll(r.Operations, admissionregistrationv1.OperationType(operation)) && hasOrAll(r.APIGroups, group) &&
				slices.Contains(r.Resources, resource)
		})
		if !covered {
			missing = append(missing, operation+" of "+resource)
		}
	}
	return missing
}

func hasOrAll[T ~string](list []T, word T) bool {
	return slices.Contains(list, word) || slices.Contains(list, "*")
}

// examineSelectors tries an entry's selectors on namespaces instead of comparing their text: one that must be served,
// those that never may be, and every labelled namespace of the cluster.
func (s Snapshot) examineSelectors(e entry, d demand) []Finding {
	var found []Finding
	say := func(message string) {
		found = append(found, Finding{
			Severity: Fail, Subject: e.subject(), Message: message,
			Advice: "upgrade the release with the chart, and find out who changed the selectors",
		})
	}
	asked := map[string]string{wire.LabelRole: wire.RolePublisher}
	// The publishers' entries may ask for the role by objectSelector; every other entry must see all objects.
	if !matches(e.objects, asked) || (d.label != wire.LabelPublishers && !matches(e.objects, nil)) {
		say("objectSelector keeps objects from the webhook that it must see")
	}
	if unserved := s.unserved(e, d); len(unserved) > 0 {
		say("namespaceSelector leaves out namespaces that it must serve: " + few(unserved))
	}
	if d.label == "" {
		return found
	}
	for _, name := range append(builtInExcluded(), s.Release) {
		if name != "" && matches(e.namespaces, map[string]string{d.label: d.value, wire.LabelNamespaceName: name}) {
			say("namespaceSelector reaches " + name + ": an outage of the webhook could stop the cluster's own pods")
		}
	}
	if matches(e.namespaces, map[string]string{wire.LabelNamespaceName: "any"}) {
		say("namespaceSelector does not ask for " + d.label + "=" + d.value + ": namespaces that never asked for it are served and hurt by an outage")
	}
	return found
}

// unserved lists the namespaces that an entry must serve and does not.
func (s Snapshot) unserved(e entry, d demand) []string {
	var names []string
	if d.label == "" {
		for _, listed := range s.Settings.Rules.Publisher.Listed {
			namespace, _, _ := strings.Cut(listed, "/")
			if !slices.Contains(builtInExcluded(), namespace) && !matches(e.namespaces, map[string]string{wire.LabelNamespaceName: namespace}) {
				names = append(names, namespace)
			}
		}
		return names
	}
	if !matches(e.namespaces, map[string]string{d.label: d.value, wire.LabelNamespaceName: "any"}) {
		names = append(names, "any namespace labelled "+d.label+"="+d.value)
	}
	for _, ns := range s.Namespaces {
		if ns.Labels[d.label] == d.value && !s.excluded(ns.Name) && !matches(e.namespaces, ns.Labels) {
			names = append(names, ns.Name)
		}
	}
	return names
}

// matches applies a selector; one that is absent selects everything, one that cannot be read nothing.
func matches(selector *metav1.LabelSelector, set map[string]string) bool {
	if selector == nil {
		return true
	}
	sel, err := metav1.LabelSelectorAsSelector(selector)
	return err == nil && sel.Matches(labels.Set(set))
}
