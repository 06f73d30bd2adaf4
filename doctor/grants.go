package doctor

import (
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
)

// right is something that RBAC can grant: a verb on a resource ("serviceaccounts/token") of a group.
type right struct{ verb, group, resource string }

// grants says whether a rule grants a right on objects of any name. A rule that is bound to names grants it on these
// alone, and still counts unless the caller asks for any name.
func grants(rule rbacv1.PolicyRule, r right) bool {
	return hasOrAll(rule.Verbs, r.verb) && hasOrAll(rule.APIGroups, r.group) && slices.ContainsFunc(rule.Resources, func(res string) bool {
		if res == "*" || res == r.resource {
			return true
		}
		// "*/token" stands for the subresource of every resource.
		after, star := strings.CutPrefix(res, "*/")
		_, sub, has := strings.Cut(r.resource, "/")
		return star && has && after == sub
	})
}

// holder is a subject with a right, and how it came to it.
type holder struct {
	subject   rbacv1.Subject
	namespace string // where the right holds; empty is everywhere
	via       string // the binding
	role      string
	rule      rbacv1.PolicyRule
}

// name is the subject as a person reads it.
func (h holder) name() string {
	switch h.subject.Kind {
	case rbacv1.ServiceAccountKind:
		return "serviceaccount " + h.subject.Namespace + "/" + h.subject.Name
	default:
		return strings.ToLower(h.subject.Kind) + " " + h.subject.Name
	}
}

// String tells who and how.
func (h holder) String() string {
	where := ""
	if h.namespace != "" {
		where = " in " + h.namespace
	}
	return h.name() + where + " (" + h.via + ")"
}

// grantedRule is a rule that a binding gives to subjects.
type grantedRule struct {
	rule      rbacv1.PolicyRule
	subjects  []rbacv1.Subject
	namespace string
	via       string
	role      string
}

// granted follows every binding to its role's rules. A binding to a role that does not exist grants nothing.
func (s Snapshot) granted() []grantedRule {
	clusterRoles := map[string][]rbacv1.PolicyRule{}
	for _, r := range s.ClusterRoles {
		clusterRoles[r.Name] = r.Rules
	}
	roles := map[string][]rbacv1.PolicyRule{}
	for _, r := range s.Roles {
		roles[r.Namespace+"/"+r.Name] = r.Rules
	}
	var all []grantedRule
	for _, b := range s.ClusterRoleBindings {
		for _, rule := range clusterRoles[b.RoleRef.Name] {
			all = append(all, grantedRule{rule, b.Subjects, "", "ClusterRoleBinding/" + b.Name, b.RoleRef.Name})
		}
	}
	for _, b := range s.RoleBindings {
		rules := roles[b.Namespace+"/"+b.RoleRef.Name]
		if b.RoleRef.Kind == "ClusterRole" {
			rules = clusterRoles[b.RoleRef.Name]
		}
		for _, rule := range rules {
			all = append(all, grantedRule{rule, b.Subjects, b.Namespace, "RoleBinding/" + b.Namespace + "/" + b.Name, b.RoleRef.Name})
		}
	}
	return all
}

// holders lists who has any of the rights, once a subject and binding.
func (s Snapshot) holders(rights ...right) []holder {
	var all []holder
	seen := map[string]bool{}
	for _, g := range s.granted() {
		if !slices.ContainsFunc(rights, func(r right) bool { return grants(g.rule, r) }) {
			continue
		}
		for _, subject := range g.subjects {
			h := holder{subject, g.namespace, g.via, g.role, g.rule}
			if !seen[h.String()] {
				seen[h.String()] = true
				all = append(all, h)
			}
		}
	}
	return all
}

// everybody are groups that hold anyone at all, or any workload at all.
func everybody(sub rbacv1.Subject) bool {
	return sub.Kind == rbacv1.GroupKind && (sub.Name == "system:authenticated" || sub.Name == "system:unauthenticated" ||
		sub.Name == "system:serviceaccounts" || strings.HasPrefix(sub.Name, "system:serviceaccounts:")) ||
		sub.Kind == rbacv1.UserKind && sub.Name == "system:anonymous"
}

// controlPlane are the subjects of Kubernetes itself: whoever has these has the cluster.
func controlPlane(sub rbacv1.Subject) bool {
	switch sub.Kind {
	case rbacv1.GroupKind:
		return sub.Name == "system:masters" || sub.Name == "system:nodes" || strings.HasPrefix(sub.Name, "kubeadm:")
	case rbacv1.UserKind:
		return strings.HasPrefix(sub.Name, "system:kube-") || sub.Name == "system:apiserver"
	default:
		return sub.Namespace == "kube-system"
	}
}
