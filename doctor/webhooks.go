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
	if severity, message := s.wrongTarget(e); message != "" {
		say(severity, message, upgrade)
	}
	if _, path := e.target(); path != d.path {
		say(Fail, "clientConfig's path is not "+d.path+": the path tells the webhook what the namespace is entitled to", upgrade)
	}
	for _, r := range missingRules(e.rules, d.resources) {
		say(Fail, "no rule covers "+r+": these requests go unseen", upgrade)
	}
	return append(found, s.examineSelectors(e, d)...)
}

// wrongTarget says what is wrong with where an entry leads; the message is empty when nothing is. A webhook on the API
// server's own machine is how the demo and tests run it.
func (s Snapshot) wrongTarget(e entry) (Severity, string) {
	host, _ := e.target()
	svc := e.client.Service
	switch {
	case svc == nil && loopback(host):
		return Warn, "clientConfig leads to the API server's own machine in place of the webhook's Service: good for a trial only"
	case svc == nil:
		return Fail, "clientConfig names a URL in place of the webhook's Service: someone else may be answering"
	case s.Release != "" && svc.Namespace != s.Release:
		return Fail, fmt.Sprintf("clientConfig leads to namespace %q, not to the release's: someone else may be answering", svc.Namespace)
	}
	return OK, ""
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
