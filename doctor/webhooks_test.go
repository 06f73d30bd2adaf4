package doctor

import (
	"net"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/mutate"
)

const jobEntry = "MutatingWebhookConfiguration/lanyard entry job.mutate.lanyard.dev"

// job is the entry that the faults below are planted in.
func (s *Snapshot) job() *admissionregistrationv1.MutatingWebhook { return &s.Mutating.Webhooks[0] }

func TestWebhookFaults(t *testing.T) {
	t.Parallel()
	runFaults(t, map[string]fault{
		"no installation at all": {
			func(s *Snapshot) { s.Release = ""; s.Mutating = nil; s.Validating = nil; s.Settings = Settings{} },
			CheckInstallation, Fail, "", "no installation",
		},
		"an old API server": {
			func(s *Snapshot) { s.Minor = 31 },
			CheckVersion, Fail, "Kubernetes 1.31", "1.32",
		},
		"the whole mutating configuration is missing": {
			func(s *Snapshot) { s.Mutating = nil },
			CheckWebhooks, Fail, "MutatingWebhookConfiguration/lanyard", "is missing",
		},
		"the whole validating configuration is missing": {
			func(s *Snapshot) { s.Validating = nil },
			CheckWebhooks, Fail, "ValidatingWebhookConfiguration/lanyard", "is missing",
		},
		"an entry is missing": {
			func(s *Snapshot) { s.Validating.Webhooks = s.Validating.Webhooks[1:] },
			CheckWebhooks, Fail, "ValidatingWebhookConfiguration/lanyard entry job.validate.lanyard.dev", "missing",
		},
		"the entry of the early check is missing": {
			func(s *Snapshot) { s.Validating.Webhooks = s.Validating.Webhooks[:3] },
			CheckWebhooks, Warn, "ValidatingWebhookConfiguration/lanyard entry template.validate.lanyard.dev", "missing",
		},
		"failurePolicy is Ignore where it must be Fail": {
			func(s *Snapshot) { s.job().FailurePolicy = new(admissionregistrationv1.Ignore) },
			CheckWebhooks, Fail, jobEntry, "failurePolicy",
		},
		"a long timeout": {
			func(s *Snapshot) { s.job().TimeoutSeconds = new(int32(30)) },
			CheckWebhooks, Warn, jobEntry, "timeoutSeconds",
		},
		"matchPolicy Exact": {
			func(s *Snapshot) { s.job().MatchPolicy = new(admissionregistrationv1.Exact) },
			CheckWebhooks, Fail, jobEntry, "matchPolicy",
		},
		"never called again": {
			func(s *Snapshot) { s.job().ReinvocationPolicy = new(admissionregistrationv1.NeverReinvocationPolicy) },
			CheckWebhooks, Warn, jobEntry, "reinvocationPolicy",
		},
		"side effects": {
			func(s *Snapshot) { s.job().SideEffects = new(admissionregistrationv1.SideEffectClassNoneOnDryRun) },
			CheckWebhooks, Warn, jobEntry, "sideEffects",
		},
		"conditions where none belong": {
			func(s *Snapshot) {
				s.job().MatchConditions = []admissionregistrationv1.MatchCondition{{Name: "x", Expression: "false"}}
			},
			CheckWebhooks, Fail, jobEntry, "matchConditions",
		},
		"a URL in place of the Service": {
			func(s *Snapshot) {
				s.job().ClientConfig.Service = nil
				s.job().ClientConfig.URL = new("https://example.com")
			},
			CheckWebhooks, Fail, jobEntry, "URL",
		},
		"a webhook on the API server's own machine": {
			func(s *Snapshot) {
				s.job().ClientConfig.Service = nil
				s.job().ClientConfig.URL = new("https://127.0.0.1:8443/mutate/job")
				s.Serving.Chain[0].IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
			},
			CheckWebhooks, Warn, jobEntry, "good for a trial only",
		},
		"no entry leads to a Service": {
			func(s *Snapshot) {
				s.Mutating.Webhooks, s.Validating.Webhooks = nil, nil
				s.Settings.Rules = mutate.Rules{}
				s.Namespaces, s.Pods, s.Work = nil, nil, nil
			},
			CheckEndpoints, Warn, "", "not examined",
		},
		"a Service of another namespace": {
			func(s *Snapshot) { s.job().ClientConfig.Service.Namespace = "elsewhere" },
			CheckWebhooks, Fail, jobEntry, `leads to namespace "elsewhere"`,
		},
		"another role's path": {
			func(s *Snapshot) { s.job().ClientConfig.Service.Path = new(wire.PathMutateListed) },
			CheckWebhooks, Fail, jobEntry, "path is not /mutate/job",
		},
		"pods are not looked at": {
			func(s *Snapshot) { s.job().Rules = s.job().Rules[1:] },
			CheckWebhooks, Fail, jobEntry, "CREATE of pods",
		},
		"a stamped parent is not looked at": {
			func(s *Snapshot) { s.job().Rules = s.job().Rules[:2] },
			CheckWebhooks, Fail, jobEntry, "CREATE of cronjobs",
		},
		"debug containers are not looked at": {
			func(s *Snapshot) { s.Validating.Webhooks[0].Rules = s.Validating.Webhooks[0].Rules[:1] },
			CheckWebhooks, Fail, "ValidatingWebhookConfiguration/lanyard entry job.validate.lanyard.dev", "UPDATE of pods/ephemeralcontainers",
		},
		"an objectSelector": {
			func(s *Snapshot) {
				s.job().ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
			},
			CheckWebhooks, Fail, jobEntry, "objectSelector",
		},
		"a managed namespace is left out": {
			func(s *Snapshot) {
				e := &s.job().NamespaceSelector.MatchExpressions
				*e = append(*e, metav1.LabelSelectorRequirement{Key: wire.LabelNamespaceName, Operator: metav1.LabelSelectorOpNotIn, Values: []string{"ml"}})
			},
			CheckWebhooks, Fail, jobEntry, "leaves out namespaces that it must serve: ml",
		},
		"no managed namespace is served": {
			func(s *Snapshot) { s.job().NamespaceSelector.MatchLabels[wire.LabelJobs] = "never" },
			CheckWebhooks, Fail, jobEntry, "any namespace labelled lanyard.dev/jobs=managed",
		},
		"a listed publisher's namespace is left out": {
			func(s *Snapshot) {
				s.Mutating.Webhooks[3].NamespaceSelector.MatchLabels[wire.LabelNamespaceName] = "other"
			},
			CheckWebhooks, Fail, "MutatingWebhookConfiguration/lanyard entry listed.mutate.lanyard.dev", "monitors",
		},
		"kube-system is served": {
			func(s *Snapshot) { s.job().NamespaceSelector.MatchExpressions = nil },
			CheckWebhooks, Fail, jobEntry, "reaches kube-system",
		},
		"every namespace is served": {
			func(s *Snapshot) { s.job().NamespaceSelector.MatchLabels = nil },
			CheckWebhooks, Fail, jobEntry, "does not ask for lanyard.dev/jobs=managed",
		},
		"no endpoint is ready": {
			func(s *Snapshot) {
				for i := range s.Endpoints[0].Endpoints {
					s.Endpoints[0].Endpoints[i].Conditions.Ready = new(false)
				}
			},
			CheckEndpoints, Fail, "Service/lanyard-webhook", "no endpoint is ready",
		},
		"all endpoints on one node": {
			func(s *Snapshot) {
				for i := range s.Endpoints[0].Endpoints {
					s.Endpoints[0].Endpoints[i].NodeName = new("node-a")
				}
			},
			CheckEndpoints, Warn, "Service/lanyard-webhook", "all 2 ready endpoints are on node node-a",
		},
		"one endpoint alone": {
			func(s *Snapshot) { s.Endpoints[0].Endpoints = s.Endpoints[0].Endpoints[:1] },
			CheckEndpoints, Warn, "Service/lanyard-webhook", "one endpoint",
		},
	})
}

// TestRolesThatAreOff shows that no entry is missed for a role that the configuration switches off.
func TestRolesThatAreOff(t *testing.T) {
	t.Parallel()
	s := healthy(t)
	s.Settings.Rules.Job = nil
	s.Settings.Rules.Publisher = nil
	s.Mutating.Webhooks, s.Validating.Webhooks = nil, nil
	if found := examineWebhooks(s); len(found) != 0 {
		t.Errorf("findings without roles: %+v", found)
	}
}
