package doctor

import (
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
)

func TestAccessFaults(t *testing.T) {
	t.Parallel()
	alice := rbacv1.Subject{Kind: "User", Name: "alice"}
	all := rbacv1.Subject{Kind: "Group", Name: "system:authenticated"}
	write := rbacv1.PolicyRule{Verbs: []string{"patch"}, APIGroups: []string{"*"}, Resources: []string{"validatingadmissionpolicies"}}
	runFaults(t, map[string]fault{
		"a platform admin to know of": {
			func(s *Snapshot) { s.bind("lanyard-platform-admin", alice) },
			CheckAdmins, Warn, "administer lanyard.dev/platform", "user alice",
		},
		"everybody is a platform admin": {
			func(s *Snapshot) { s.bind("lanyard-platform-admin", all) },
			CheckAdmins, Fail, "administer lanyard.dev/platform", "group system:authenticated",
		},
		"a workload is cluster admin, and so platform admin": {
			func(s *Snapshot) { s.bind("cluster-admin", account("ci", "runner")) },
			CheckAdmins, Warn, "administer lanyard.dev/platform", "serviceaccount ci/runner",
		},
		"somebody may change policies": {
			func(s *Snapshot) {
				s.ClusterRoles = append(s.ClusterRoles, clusterRole("policy-writer", write))
				s.bind("policy-writer", alice)
			},
			CheckGuardEditors, Warn, "write admissionregistration.k8s.io", "user alice",
		},
		"every workload may change policies": {
			func(s *Snapshot) {
				s.ClusterRoles = append(s.ClusterRoles, clusterRole("policy-writer", write))
				s.bind("policy-writer", rbacv1.Subject{Kind: "Group", Name: "system:serviceaccounts"})
			},
			CheckGuardEditors, Fail, "write admissionregistration.k8s.io", "system:serviceaccounts",
		},
		"somebody may make tokens everywhere": {
			func(s *Snapshot) { s.bind("edit", alice) },
			CheckTokens, Warn, "create serviceaccounts/token", "user alice (ClusterRoleBinding/edit)",
		},
		"somebody may make tokens in a managed namespace": {
			func(s *Snapshot) { s.bindIn("ml", "edit", alice) },
			CheckTokens, Warn, "create serviceaccounts/token", "user alice in ml (RoleBinding/ml/edit)",
		},
		"everybody may make tokens": {
			func(s *Snapshot) { s.bind("edit", all) },
			CheckTokens, Fail, "create serviceaccounts/token", "system:authenticated",
		},
		"somebody may impersonate": {
			func(s *Snapshot) { s.bind("impersonator", alice) },
			CheckImpersonate, Warn, "impersonate", "user alice",
		},
		"one of our accounts may read Secrets": {
			func(s *Snapshot) {
				s.Roles = append(s.Roles, rbacv1.Role{Rules: []rbacv1.PolicyRule{{Verbs: []string{"get", "list"}, APIGroups: []string{""}, Resources: []string{"secrets"}}}})
				s.Roles[0].Namespace, s.Roles[0].Name = release, "reader"
				s.bindIn(release, "reader", account(release, "lanyard-webhook"))
				s.RoleBindings[0].RoleRef.Kind = "Role"
			},
			CheckOwnAccounts, Fail, "serviceaccount nvsentinel/lanyard-webhook in nvsentinel (RoleBinding/nvsentinel/reader)", "read Secrets",
		},
		"one of our accounts may impersonate": {
			func(s *Snapshot) { s.bindIn(release, "impersonator", account(release, "lanyard-exchange")) },
			CheckOwnAccounts, Fail, "serviceaccount nvsentinel/lanyard-exchange in nvsentinel (RoleBinding/nvsentinel/impersonator)", "act as anybody",
		},
	})
}

// TestAccessThatIsFine lists grants that are no news.
func TestAccessThatIsFine(t *testing.T) {
	t.Parallel()
	alice := rbacv1.Subject{Kind: "User", Name: "alice"}
	for name, grant := range map[string]func(*Snapshot){
		"tokens in a namespace that is not served":   func(s *Snapshot) { s.bindIn("plain", "edit", alice) },
		"a person who is cluster admin":              func(s *Snapshot) { s.bind("cluster-admin", alice) },
		"a namespace's admin may not reach policies": func(s *Snapshot) { s.bindIn("plain", "cluster-admin", alice) },
		"a controller of Kubernetes itself":          func(s *Snapshot) { s.bind("edit", account("kube-system", "generic-garbage-collector")) },
		"a binding to a role that does not exist":    func(s *Snapshot) { s.bind("gone", alice) },
		"one named Secret for one of our own accounts": func(s *Snapshot) {
			s.ClusterRoles = append(s.ClusterRoles, clusterRole("key", rbacv1.PolicyRule{
				Verbs: []string{"get", "list"}, APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{"lanyard-exchange-keys"},
			}))
			s.bindIn(release, "key", account(release, "lanyard-exchange"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := healthy(t)
			grant(&s)
			if text := bad(Examine(s)); text != "" {
				t.Errorf("findings:\n%s", text)
			}
		})
	}
}

func TestGrants(t *testing.T) {
	t.Parallel()
	token := right{"create", "", "serviceaccounts/token"}
	for name, tc := range map[string]struct {
		rule rbacv1.PolicyRule
		want bool
	}{
		"exactly it":                  {rbacv1.PolicyRule{Verbs: []string{"create"}, APIGroups: []string{""}, Resources: []string{"serviceaccounts/token"}}, true},
		"everything":                  {rbacv1.PolicyRule{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}}, true},
		"the subresource of all":      {rbacv1.PolicyRule{Verbs: []string{"create"}, APIGroups: []string{""}, Resources: []string{"*/token"}}, true},
		"the resource alone":          {rbacv1.PolicyRule{Verbs: []string{"create"}, APIGroups: []string{""}, Resources: []string{"serviceaccounts"}}, false},
		"another verb":                {rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"serviceaccounts/token"}}, false},
		"another group":               {rbacv1.PolicyRule{Verbs: []string{"create"}, APIGroups: []string{"apps"}, Resources: []string{"*"}}, false},
		"another subresource of all":  {rbacv1.PolicyRule{Verbs: []string{"create"}, APIGroups: []string{""}, Resources: []string{"*/status"}}, false},
		"the zero rule":               {rbacv1.PolicyRule{}, false},
		"a URL, which is no resource": {rbacv1.PolicyRule{Verbs: []string{"*"}, NonResourceURLs: []string{"*"}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := grants(tc.rule, token); got != tc.want {
				t.Errorf("grants = %v, want %v", got, tc.want)
			}
		})
	}
}
