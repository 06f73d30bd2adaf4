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
	bound := s.boundNamespaces()
	for _, ns := range s.Namespaces {
		for _, l := range servingLabels() {
			if f := s.namespaceLabel(ns, l, bound); f != nil {
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
func (s Snapshot) namespaceLabel(ns corev1.Namespace, l servingLabel, bound []string) *Finding {
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
	case len(bound) > 0 && !slices.Contains(bound, ns.Name):
		f.Message = fmt.Sprintf("labelled %s=%s (%s), but no RoleBinding lets Lanyard's own accounts look into it: it is outside the chart's lists", l.label, l.value, l.means)
		f.Advice = "add it to the chart's list (jobs.namespaces or publishers), or remove the label"
	default:
		return nil
	}
	return f
}

// boundNamespaces are the namespaces outside the release's own in which a RoleBinding names an account of the release; the
// chart makes one in every namespace on its lists. None at all means that the chart binds cluster-wide, or that bindings
// could not be read: then nothing follows from a missing one.
func (s Snapshot) boundNamespaces() []string {
	var names []string
	for _, b := range s.RoleBindings {
		own := slices.ContainsFunc(b.Subjects, func(sub rbacv1.Subject) bool {
			return sub.Kind == rbacv1.ServiceAccountKind && s.Release != "" && sub.Namespace == s.Release
		})
		if own && b.Namespace != s.Release && b.Namespace != "kube-system" {
			names = append(names, b.Namespace)
		}
	}
	return names
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
