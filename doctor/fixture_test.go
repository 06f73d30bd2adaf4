package doctor

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/mutate"
	"github.com/lanyard-k8s/lanyard/policy"
)

const (
	release = "nvsentinel"
	service = "lanyard-webhook"
	day     = 24 * time.Hour
)

// healthy is an installation with nothing wrong. It serves a managed namespace, a publishers' namespace and a listed
// publisher, each with a pod that carries its token.
func healthy(t *testing.T) Snapshot {
	t.Helper()
	ca, chain := issue(t, now.Add(80*day))
	s := Snapshot{
		Now: now, Release: release, Unread: map[Source]string{}, Major: 1, Minor: 37,
		Settings: Settings{
			Rules: mutate.Rules{
				Mode: mutate.Enforce,
				Publisher: &mutate.PublisherRules{
					Token: mutate.Token{Audience: wire.DefaultPublisherAudience}, Listed: []string{"monitors/gpu"},
				},
				Job: &mutate.JobRules{
					Token: mutate.Token{Audience: wire.DefaultJobAudience}, Kinds: []mutate.GroupKind{{Group: "batch", Kind: "Job"}},
					CAConfigMap: "lanyard-ca",
				},
			},
			Stamped: []string{"batch/jobs", "batch/cronjobs"},
		},
		Serving: Serving{Secret: "lanyard-webhook-tls", Found: true, Chain: chain},
		Issued:  []Certificate{{Name: "lanyard-webhook-tls", Secret: "lanyard-webhook-tls", Ready: true, Expires: now.Add(80 * day)}},
		Endpoints: []discoveryv1.EndpointSlice{{
			ObjectMeta: metav1.ObjectMeta{Namespace: release, Labels: map[string]string{discoveryv1.LabelServiceName: service}},
			Endpoints:  []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.1"}, NodeName: new("a")}, {Addresses: []string{"10.0.0.2"}, NodeName: new("b")}},
		}},
		Namespaces: []corev1.Namespace{
			namespace("kube-system", ""), namespace(release, ""), namespace("plain", ""), namespace("monitors", ""),
			namespace("ml", wire.LabelJobs+"="+wire.JobsManaged), namespace("gpu", wire.LabelPublishers+"="+wire.PublishersEnabled),
		},
		Pods: []corev1.Pod{
			pod("ml", "train-x", wire.VolumeJob, wire.DefaultJobAudience, &metav1.OwnerReference{APIVersion: "batch/v1", Kind: "Job", Controller: new(true)}),
			publisherPod("gpu", "monitor"),
			pod("monitors", "listed", wire.VolumePublisher, wire.DefaultPublisherAudience, nil),
		},
		Work: []Work{{Resource: "batch/jobs", Namespace: "ml", Name: "train", Stamped: true}},
		CA:   map[string]bool{"ml": true},
	}
	s.Pods[2].Spec.ServiceAccountName = "gpu"
	s.Mutating, s.Validating = configurations(ca)
	s.addPolicies()
	s.addAccess()
	return s
}

func (s *Snapshot) addPolicies() {
	settings := policy.Settings{
		Mode: policy.Enforce, Jobs: true, PublisherAudience: wire.DefaultPublisherAudience, JobAudience: wire.DefaultJobAudience,
		JobTokenFile: wire.DefaultJobMountPath + "/token", Publishers: []string{"monitors/gpu"},
		Kinds:      []policy.Kind{{Group: "batch", Kind: "Job", PodCreators: []string{"system:serviceaccount:kube-system:job-controller"}}},
		Submitters: []string{"system:serviceaccount:ci:runner"}, TokenRequesters: []string{"system:serviceaccount:ci:smoke"},
		ExcludedNamespaces: []string{"kube-system", "kube-public", "kube-node-lease", release},
	}
	for _, p := range policy.All(settings) {
		s.Policies, s.Bindings = append(s.Policies, *p.Policy), append(s.Bindings, *p.Binding)
	}
	settings.Submitters, settings.TokenRequesters = []string{Unknown}, []string{Unknown}
	for _, p := range policy.All(settings) {
		s.ExpectedPolicies, s.ExpectedBindings = append(s.ExpectedPolicies, *p.Policy), append(s.ExpectedBindings, *p.Binding)
	}
}

// addAccess gives roles as Kubernetes and the chart have them.
func (s *Snapshot) addAccess() {
	s.ClusterRoles = []rbacv1.ClusterRole{
		clusterRole("cluster-admin", rbacv1.PolicyRule{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}}),
		clusterRole("edit", rbacv1.PolicyRule{Verbs: []string{"create"}, APIGroups: []string{""}, Resources: []string{"serviceaccounts/token"}}),
		clusterRole("impersonator", rbacv1.PolicyRule{Verbs: []string{"impersonate"}, APIGroups: []string{""}, Resources: []string{"users"}}),
		clusterRole("lanyard-platform-admin", rbacv1.PolicyRule{Verbs: []string{"administer"}, APIGroups: []string{"lanyard.dev"}, Resources: []string{"platform"}}),
		clusterRole("cainjector", rbacv1.PolicyRule{
			Verbs: []string{"get", "update"}, APIGroups: []string{admissionGroup}, Resources: []string{"mutatingwebhookconfigurations"},
		}),
		clusterRole("lanyard-exchange", rbacv1.PolicyRule{Verbs: []string{"create"}, APIGroups: []string{"authentication.k8s.io"}, Resources: []string{"tokenreviews"}}),
	}
	s.bind("cluster-admin", rbacv1.Subject{Kind: "Group", Name: "system:masters"})
	s.bind("cainjector", account("cert-manager", "cert-manager-cainjector"))
	s.bind("lanyard-exchange", account(release, "lanyard-exchange"))
}

// addConnector gives the nodes' connectors what the chart gives them in the cluster.
func (s *Snapshot) addConnector() {
	s.ClusterRoles = append(s.ClusterRoles, clusterRole("lanyard-connector",
		rbacv1.PolicyRule{Verbs: []string{"get", "list", "watch"}, APIGroups: []string{""}, Resources: []string{"nodes"}}))
	s.bind("lanyard-connector", account(release, "lanyard-connector"))
}

func clusterRole(name string, rules ...rbacv1.PolicyRule) rbacv1.ClusterRole {
	return rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}
}

func account(namespace, name string) rbacv1.Subject {
	return rbacv1.Subject{Kind: "ServiceAccount", Namespace: namespace, Name: name}
}

// bind binds a ClusterRole in the whole cluster, bindIn in one namespace.
func (s *Snapshot) bind(role string, subject rbacv1.Subject) {
	s.ClusterRoleBindings = append(s.ClusterRoleBindings, rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: role}, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: role}, Subjects: []rbacv1.Subject{subject},
	})
}

func (s *Snapshot) bindIn(namespace, role string, subject rbacv1.Subject) {
	s.RoleBindings = append(s.RoleBindings, rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: role}, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: role}, Subjects: []rbacv1.Subject{subject},
	})
}

// namespace makes a namespace with the API server's name label and one label more ("key=value").
func namespace(name, label string) corev1.Namespace {
	ns := corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{wire.LabelNamespaceName: name}}}
	if key, value, found := strings.Cut(label, "="); found {
		ns.Labels[key] = value
	}
	return ns
}

// pod makes a pod that projects an audience in a volume.
func pod(namespace, name, volume, audience string, owner *metav1.OwnerReference) corev1.Pod {
	p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{}, Annotations: map[string]string{}}}
	if owner != nil {
		p.OwnerReferences = []metav1.OwnerReference{*owner}
	}
	p.Spec.Volumes = []corev1.Volume{{Name: volume, VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
		Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Audience: audience}}},
	}}}}
	return p
}

func publisherPod(namespace, name string) corev1.Pod {
	p := pod(namespace, name, wire.VolumePublisher, wire.DefaultPublisherAudience, nil)
	p.Labels[wire.LabelRole] = wire.RolePublisher
	return p
}

// configurations registers the entries as the chart does.
func configurations(ca []byte) (*admissionregistrationv1.MutatingWebhookConfiguration, *admissionregistrationv1.ValidatingWebhookConfiguration) {
	create, update := admissionregistrationv1.Create, admissionregistrationv1.Update
	pods, debug := rule("", "pods", create), rule("", "pods/ephemeralcontainers", update)
	jobs, cronJobs := rule("batch", "jobs", create, update), rule("batch", "cronjobs", create, update)
	validating := &admissionregistrationv1.ValidatingWebhookConfiguration{Webhooks: []admissionregistrationv1.ValidatingWebhook{
		validator(ca, "job.validate.lanyard.dev", wire.PathValidateJob, wire.LabelJobs, pods, debug),
		validator(ca, "publisher.validate.lanyard.dev", wire.PathValidatePublisher, wire.LabelPublishers, pods, debug),
		validator(ca, "listed.validate.lanyard.dev", wire.PathValidateListed, "", pods, debug),
		validator(ca, "template.validate.lanyard.dev", wire.PathValidateTemplate, wire.LabelJobs, jobs, cronJobs),
	}}
	mutating := &admissionregistrationv1.MutatingWebhookConfiguration{}
	for _, v := range []admissionregistrationv1.ValidatingWebhook{
		validator(ca, "job.mutate.lanyard.dev", wire.PathMutateJob, wire.LabelJobs, pods, jobs, cronJobs),
		validator(ca, "stamp.mutate.lanyard.dev", wire.PathMutateJob, wire.LabelJobs, jobs, cronJobs),
		validator(ca, "publisher.mutate.lanyard.dev", wire.PathMutatePublisher, wire.LabelPublishers, pods),
		validator(ca, "listed.mutate.lanyard.dev", wire.PathMutateListed, "", pods),
	} {
		mutating.Webhooks = append(mutating.Webhooks, admissionregistrationv1.MutatingWebhook{
			Name: v.Name, ClientConfig: v.ClientConfig, Rules: v.Rules, FailurePolicy: v.FailurePolicy, MatchPolicy: v.MatchPolicy,
			NamespaceSelector: v.NamespaceSelector, SideEffects: v.SideEffects, TimeoutSeconds: v.TimeoutSeconds,
			MatchConditions: v.MatchConditions, ReinvocationPolicy: new(admissionregistrationv1.IfNeededReinvocationPolicy),
		})
	}
	return mutating, validating
}

func rule(group, resource string, operations ...admissionregistrationv1.OperationType) admissionregistrationv1.RuleWithOperations {
	return admissionregistrationv1.RuleWithOperations{Operations: operations, Rule: admissionregistrationv1.Rule{
		APIGroups: []string{group}, APIVersions: []string{"*"}, Resources: []string{resource},
	}}
}

// validator makes an entry selected by a namespace label, or for an empty one by the listed publishers' namespaces.
func validator(ca []byte, name, path, label string, rules ...admissionregistrationv1.RuleWithOperations) admissionregistrationv1.ValidatingWebhook {
	v := admissionregistrationv1.ValidatingWebhook{
		Name: name, Rules: rules, MatchPolicy: new(admissionregistrationv1.Equivalent), FailurePolicy: new(admissionregistrationv1.Fail),
		SideEffects: new(admissionregistrationv1.SideEffectClassNone), TimeoutSeconds: new(int32(3)),
		ClientConfig: admissionregistrationv1.WebhookClientConfig{
			CABundle: ca, Service: &admissionregistrationv1.ServiceReference{Namespace: release, Name: service, Path: &path},
		},
	}
	excluded := append(slices.Clone(builtInExcluded()), release)
	condition := []admissionregistrationv1.MatchCondition{{Name: "role", Expression: "true"}}
	switch label {
	case wire.LabelJobs:
		v.NamespaceSelector = selector(excluded, label, wire.JobsManaged)
	case wire.LabelPublishers:
		v.NamespaceSelector, v.MatchConditions = selector(excluded, label, wire.PublishersEnabled), condition
	default:
		v.NamespaceSelector, v.MatchConditions = selector(builtInExcluded(), wire.LabelNamespaceName, "monitors"), condition
	}
	if strings.HasPrefix(name, "stamp") || strings.HasPrefix(name, "template") {
		v.FailurePolicy = new(admissionregistrationv1.Ignore)
	}
	return v
}

func selector(excluded []string, label, value string) *metav1.LabelSelector {
	return &metav1.LabelSelector{
		MatchLabels:      map[string]string{label: value},
		MatchExpressions: []metav1.LabelSelectorRequirement{{Key: wire.LabelNamespaceName, Operator: metav1.LabelSelectorOpNotIn, Values: excluded}},
	}
}

// issue makes a CA and the webhook's serving certificate, which ends at the given time.
func issue(t *testing.T, end time.Time) (ca []byte, chain []*x509.Certificate) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	root := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, NotBefore: now.Add(-day), NotAfter: now.Add(3650 * day),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), NotBefore: now.Add(-100 * day), NotAfter: end, DNSNames: []string{service + "." + release + ".svc"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	sign := func(c *x509.Certificate) []byte {
		der, err := x509.CreateCertificate(rand.Reader, c, root, &key.PublicKey, key)
		if err != nil {
			t.Fatal(err)
		}
		return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	}
	return sign(root), ParseCertificates(sign(leaf))
}
