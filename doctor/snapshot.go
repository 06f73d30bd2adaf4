package doctor

import (
	"crypto/x509"
	"slices"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/mutate"
)

// Source is a part of the cluster that was, or could not be, read.
type Source string

// The sources.
const (
	SourceVersion    Source = "the API server's version"
	SourceSettings   Source = "the webhook's configuration"
	SourceWebhooks   Source = "the webhook configurations"
	SourceSecrets    Source = "the webhook's serving certificate"
	SourceIssuance   Source = "cert-manager's certificates"
	SourceEndpoints  Source = "the webhook's endpoints"
	SourcePolicies   Source = "the policies and their bindings"
	SourceNamespaces Source = "the namespaces"
	SourceRBAC       Source = "roles and their bindings"
	SourcePods       Source = "the pods"
	SourceJobs       Source = "the jobs of every kind"
	SourceCA         Source = "the CA certificate's ConfigMaps"
)

// Name is what Lanyard's webhook configurations, both of them, are called.
const Name = "lanyard"

// Snapshot is what doctor looked at. Unread says, for each source that could not be read, why; the fields that belong to it
// are then empty and mean nothing.
type Snapshot struct {
	Now     time.Time
	Release string // the namespace that Lanyard is installed in; empty when it was not found
	Unread  map[Source]string

	Major, Minor int // of the API server
	Settings     Settings

	Mutating   *admissionregistrationv1.MutatingWebhookConfiguration
	Validating *admissionregistrationv1.ValidatingWebhookConfiguration
	Serving    Serving
	Issued     []Certificate // cert-manager's, in the release's namespace
	Endpoints  []discoveryv1.EndpointSlice

	Policies         []admissionregistrationv1.ValidatingAdmissionPolicy
	Bindings         []admissionregistrationv1.ValidatingAdmissionPolicyBinding
	ExpectedPolicies []admissionregistrationv1.ValidatingAdmissionPolicy
	ExpectedBindings []admissionregistrationv1.ValidatingAdmissionPolicyBinding

	Namespaces          []corev1.Namespace
	ClusterRoles        []rbacv1.ClusterRole
	ClusterRoleBindings []rbacv1.ClusterRoleBinding
	Roles               []rbacv1.Role
	RoleBindings        []rbacv1.RoleBinding

	Pods []corev1.Pod
	Work []Work
	// CA tells of each managed namespace whether the ConfigMap with the CA certificate is there.
	CA map[string]bool
}

// Work is an object of a resource that bears the creator's stamp, in a managed namespace: a job of any kind, or a parent of jobs.
type Work struct {
	Resource  string // "group/resource"
	Namespace string
	Name      string
	Stamped   bool
	Ended     bool // it makes no more pods
}

// Settings are what the installation was told to do, from the webhook's configuration. Excluded are namespaces that no
// entry serves, besides the built-in ones and the release's own. Entitled are further accounts ("namespace/name") that
// may project the publisher's audience. Stamped are the resources ("group/resource") that bear the creator's stamp, besides
// pods.
type Settings struct {
	Rules    mutate.Rules
	Excluded []string
	Entitled []string
	Stamped  []string
}

// Serving is the webhook's serving certificate, its public part only, leaf first.
type Serving struct {
	Secret string // the Secret's name
	Found  bool
	Chain  []*x509.Certificate
}

// Certificate is what cert-manager says of one of its Certificates.
type Certificate struct {
	Name    string
	Secret  string // that it is kept in
	Ready   bool
	Reason  string // cert-manager's word for why it is not ready
	Expires time.Time
}

// builtInExcluded are the namespaces that no entry ever serves.
func builtInExcluded() []string { return []string{"kube-system", "kube-public", "kube-node-lease"} }

// excluded says whether a namespace is out of every entry (but the listed publishers', which serve the release's own).
func (s Snapshot) excluded(namespace string) bool {
	return slices.Contains(builtInExcluded(), namespace) || slices.Contains(s.Settings.Excluded, namespace) ||
		(s.Release != "" && namespace == s.Release)
}

// managed and publishers tell, by name, the namespaces that are served under a label.
func (s Snapshot) managed() map[string]bool {
	return s.labelled(wire.LabelJobs, wire.JobsManaged)
}

func (s Snapshot) publishers() map[string]bool {
	return s.labelled(wire.LabelPublishers, wire.PublishersEnabled)
}

func (s Snapshot) labelled(label, value string) map[string]bool {
	names := map[string]bool{}
	for _, ns := range s.Namespaces {
		if ns.Labels[label] == value && !s.excluded(ns.Name) {
			names[ns.Name] = true
		}
	}
	return names
}
