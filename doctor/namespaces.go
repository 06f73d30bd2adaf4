package doctor

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/lanyard-k8s/lanyard/api/wire"
)

func examineNamespaces(s Snapshot) []Finding {
	var found []Finding
	watched := s.watched()
	for _, ns := range s.Namespaces {
		for _, l := range servingLabels() {
			if f := s.namespaceLabel(ns, l, watched); f != nil {
				found = append(found, *f)
			}
		}
	}
	return append(found, s.listedNamespaces()...)
}

// servingLabel is a namespace label, its one meaningful value, and what it buys.
type servingLabel struct{ label, value, means string }

func servingLabels() []servingLabel {
	return []servingLabel{
		{wire.LabelJobs, wire.JobsManaged, "its jobs act for their submitters"},
		{wire.LabelPublishers, wire.PublishersEnabled, "its pods may ask for the publisher's token"},
	}
}

// namespaceLabel judges one label of one namespace.
func (s Snapshot) namespaceLabel(ns corev1.Namespace, l servingLabel, watched func(namespace string) bool) *Finding {
	value, labelled := ns.Labels[l.label]
	if !labelled {
		return nil
	}
	f := &Finding{Severity: Warn, Subject: "Namespace/" + ns.Name}
	switch {
	case value != l.value:
		f.Message = fmt.Sprintf("label %s has a value that means nothing, so the namespace is not served", l.label)
		f.Advice = fmt.Sprintf("set it to %q, or remove it", l.value)
	case s.excluded(ns.Name):
		f.Message = fmt.Sprintf("labelled %s=%s, but excluded from every entry of the webhook: the label has no effect", l.label, l.value)
		f.Advice = "remove the label, or take the namespace off the excluded ones"
	case l.label == wire.LabelPublishers && !watched(ns.Name):
		f.Message = fmt.Sprintf("labelled %s=%s (%s), but no RoleBinding lets the nodes' connectors watch its pods: it is outside the chart's lists, and tokens from there are reviewed every few seconds", l.label, l.value, l.means)
		f.Advice = "put a service account of it on the chart's list publishers, or remove the label"
	default:
		return nil
	}
	return f
}

// watched says whether the nodes' connectors may watch the pods of a publishers' namespace, as far as anybody needs to know: without
// token checks they watch none, and nothing follows from a missing binding where there are no such connectors, where all the
// cluster's pods are theirs to watch, or where bindings could not be read.
func (s Snapshot) watched() func(namespace string) bool {
	everywhere := slices.ContainsFunc(s.holders(right{"watch", "", "pods"}), func(h holder) bool {
		return h.namespace == "" && s.isOwn(wire.AccountSocketConnector)(h.subject)
	})
	if everywhere || s.Settings.Rules.Publisher == nil || !s.installed(wire.AccountSocketConnector) {
		return func(string) bool { return true }
	}
	bound := s.boundTo(wire.AccountSocketConnector)
	return func(namespace string) bool { return slices.Contains(bound, namespace) }
}

// installed says whether the chart has given a program its rights in the cluster.
func (s Snapshot) installed(account string) bool {
	return slices.ContainsFunc(s.ClusterRoleBindings, func(b rbacv1.ClusterRoleBinding) bool {
		return slices.ContainsFunc(b.Subjects, s.isOwn(account))
	})
}

// boundTo are the namespaces outside the release's own in which a RoleBinding names an account of the release; the chart makes
// one for a program in every namespace on the list that is about it.
func (s Snapshot) boundTo(account string) []string {
	var names []string
	for _, b := range s.RoleBindings {
		if b.Namespace != s.Release && b.Namespace != "kube-system" && slices.ContainsFunc(b.Subjects, s.isOwn(account)) {
			names = append(names, b.Namespace)
		}
	}
	return names
}

// isOwn says whether a subject is that account of the release.
func (s Snapshot) isOwn(account string) func(rbacv1.Subject) bool {
	return func(sub rbacv1.Subject) bool {
		return sub.Kind == rbacv1.ServiceAccountKind && s.Release != "" && sub.Namespace == s.Release && sub.Name == account
	}
}

// listedNamespaces looks for publishers on the list whose namespace does not exist.
func (s Snapshot) listedNamespaces() []Finding {
	if s.Settings.Rules.Publisher == nil {
		return nil
	}
	var found []Finding
	for _, listed := range s.Settings.Rules.Publisher.Listed {
		namespace, _, _ := strings.Cut(listed, "/")
		if slices.ContainsFunc(s.Namespaces, func(ns corev1.Namespace) bool { return ns.Name == namespace }) {
			continue
		}
		found = append(found, Finding{
			Severity: Warn, Subject: "Namespace/" + namespace,
			Message: fmt.Sprintf("publisher %q is listed, but its namespace does not exist: whoever creates the namespace gets the publisher's token there", listed),
			Advice:  "create the namespace, or take the publisher off the list",
		})
	}
	return found
}
