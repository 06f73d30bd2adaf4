package doctor

import (
	"net"
	"net/url"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lanyard-k8s/lanyard/api/wire"
)

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

// target is the host name that the API server expects in the certificate, and the path that it calls.
func (e entry) target() (host, path string) {
	switch svc := e.client.Service; {
	case svc != nil && svc.Path != nil:
		return svc.Name + "." + svc.Namespace + ".svc", *svc.Path
	case svc != nil:
		return svc.Name + "." + svc.Namespace + ".svc", ""
	case e.client.URL != nil:
		if u, err := url.Parse(*e.client.URL); err == nil {
			return u.Hostname(), u.Path
		}
	}
	return "", ""
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || (ip != nil && ip.IsLoopback())
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
