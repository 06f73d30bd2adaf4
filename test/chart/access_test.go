//go:build unix

package chart

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
)

// permissions are what a rendering grants: "role | groups | resources | names | verbs" for every rule, and
// "account -> role", with "in namespace" after it where that is not the whole cluster, for every binding.
func permissions(t *testing.T, profile string, args ...string) []string {
	t.Helper()
	var got []string
	rule := func(role string, rules []rbacv1.PolicyRule) {
		for _, r := range rules {
			got = append(got, strings.Join([]string{
				role, strings.Join(r.APIGroups, ","), strings.Join(r.Resources, ","), strings.Join(r.ResourceNames, ","), strings.Join(r.Verbs, ","),
			}, " | "))
		}
	}
	bind := func(role rbacv1.RoleRef, subjects []rbacv1.Subject, where string) {
		for _, s := range subjects {
			if s.Kind != rbacv1.ServiceAccountKind || s.Namespace != Namespace {
				t.Errorf("%s is bound to %s %s/%s", role.Name, s.Kind, s.Namespace, s.Name)
			}
			got = append(got, s.Name+" -> "+role.Name+where)
		}
	}
	for _, o := range render(t, profile, args...) {
		if o.GroupVersionKind().Group != rbacv1.GroupName {
			continue
		}
		switch typed := decode(t, o).(type) {
		case *rbacv1.ClusterRole:
			rule(typed.Name, typed.Rules)
		case *rbacv1.Role:
			rule(typed.Name, typed.Rules)
		case *rbacv1.ClusterRoleBinding:
			bind(typed.RoleRef, typed.Subjects, "")
		case *rbacv1.RoleBinding:
			bind(typed.RoleRef, typed.Subjects, " in "+typed.Namespace)
		}
	}
	slices.Sort(got)
	return got
}

// TestPermissions writes down everything that Lanyard's programs may do in the API server, by profile.
func TestPermissions(t *testing.T) {
	t.Parallel()
	always := []string{
		"lanyard-platform-admin | lanyard.dev | platform |  | administer",
		"lanyard-uninstall | admissionregistration.k8s.io | mutatingwebhookconfigurations,validatingwebhookconfigurations | lanyard | get,delete",
		"lanyard-uninstall -> lanyard-uninstall", "lanyard-uninstall -> lanyard-uninstall in lanyard",
	}
	sweeps := func(names string) string { return "lanyard-uninstall |  | secrets | " + names + " | delete" }
	sweepsOwn := []string{sweeps("lanyard-ca,lanyard-exchange-tls,lanyard-webhook-tls")}
	sweepsFewer := []string{sweeps("lanyard-ca,lanyard-webhook-tls")}
	sweepsMore := []string{sweeps("lanyard-ca,lanyard-connector-tls,lanyard-exchange-tls,lanyard-webhook-tls")}
	test := []string{"lanyard-test |  | pods |  | create", "lanyard-test -> lanyard-test in training"}
	reviews := func(role string) string { return role + " | authentication.k8s.io | tokenreviews |  | create" }
	writes := func(role string) []string {
		return []string{role + " |  | nodes/status |  | patch", role + " |  | events |  | create,patch"}
	}
	socket := []string{"lanyard-connector -> lanyard-connector", "lanyard-connector |  | nodes |  | get,list,watch"}
	deployment := []string{
		"lanyard-connector-deployment -> lanyard-connector-deployment", reviews("lanyard-connector-deployment"),
		"lanyard-connector-deployment |  | pods,nodes |  | list,watch",
	}
	exchange := []string{
		"lanyard-exchange -> lanyard-exchange", "lanyard-exchange -> lanyard-exchange in lanyard", ownKeys,
		reviews("lanyard-exchange"), "lanyard-exchange | authorization.k8s.io | subjectaccessreviews |  | create",
		"lanyard-exchange |  | pods,namespaces |  | get,list,watch", "lanyard-exchange | batch | cronjobs,jobs |  | get,list,watch",
		"lanyard-exchange | admissionregistration.k8s.io | validatingadmissionpolicies,validatingadmissionpolicybindings |  | get,list,watch",
		"lanyard-exchange |  | events |  | create,patch",
	}
	leads := []string{
		"lanyard-uninstall | coordination.k8s.io | leases | lanyard-exchange | delete",
		"lanyard-exchange | coordination.k8s.io | leases |  | create", "lanyard-exchange | coordination.k8s.io | leases | lanyard-exchange | get,update",
	}
	tells := []string{
		"lanyard-exchange-ca |  | configmaps |  | create", "lanyard-exchange-ca |  | configmaps | lanyard-ca | get,update",
		"lanyard-uninstall |  | configmaps | lanyard-ca | get,delete",
	}
	tellsJobs := append(slices.Clone(tells), "lanyard-exchange -> lanyard-exchange-ca in training")
	tellsGPU := append(slices.Clone(tells), "lanyard-exchange -> lanyard-exchange-ca in gpu")
	tellsUs := append(slices.Clone(tellsGPU), "lanyard-exchange -> lanyard-exchange-ca in lanyard")
	tellsBoth := append(slices.Clone(tellsJobs), "lanyard-exchange -> lanyard-exchange-ca in gpu")
	watch := []string{"lanyard-connector-pods |  | pods |  | list,watch", "lanyard-connector -> lanyard-connector-pods in gpu"}
	for name, tc := range map[string]struct {
		profile string
		args    []string
		want    [][]string
	}{
		"by default":                                   {"default", nil, [][]string{socket, {reviews("lanyard-connector")}, writes("lanyard-connector"), exchange, sweepsOwn}},
		"a managed namespace, with a test":             {"default", []string{"--set", "jobs.namespaces={training}"}, [][]string{test, socket, {reviews("lanyard-connector")}, writes("lanyard-connector"), exchange, tellsJobs, sweepsOwn}},
		"the rules without the exchange":               {"rules-only", nil, [][]string{socket, {reviews("lanyard-connector")}, writes("lanyard-connector"), sweepsFewer}},
		"without authentication":                       {"disabled", nil, [][]string{socket, writes("lanyard-connector"), sweepsFewer}},
		"the Deployment alone":                         {"deployment", nil, [][]string{deployment, writes("lanyard-connector-deployment"), exchange, sweepsMore}},
		"the nodes forward":                            {"forward", nil, [][]string{socket, {reviews("lanyard-connector")}, watch, deployment, writes("lanyard-connector-deployment"), exchange, tellsUs, sweepsMore}},
		"publishers and a monitor of us":               {"socket", nil, [][]string{socket, {reviews("lanyard-connector")}, writes("lanyard-connector"), watch, {"lanyard-connector -> lanyard-connector-pods in lanyard"}, exchange, tellsGPU, sweepsOwn}},
		"the exchange":                                 {"exchange", nil, [][]string{test, socket, {reviews("lanyard-connector")}, writes("lanyard-connector"), watch, exchange, tellsBoth, sweepsOwn}},
		"the exchange, and somebody else tells the CA": {"default", []string{"--set", "connector.socket.enabled=false,jobs.namespaces={training},jobs.caConfigMap.manage=false"}, [][]string{test, exchange, sweepsOwn}},
		"the exchange of other kinds":                  {"exchange-postgres", nil, [][]string{exchange, leads, {"lanyard-exchange | x.example.com | trainers |  | get,list,watch"}, sweepsOwn}},
		"no connector":                                 {"rules-only", []string{"--set", "connector.socket.enabled=false"}, [][]string{sweepsFewer}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want := slices.Clone(always)
			for _, w := range tc.want {
				want = append(want, w...)
			}
			slices.Sort(want)
			if diff := cmp.Diff(want, permissions(t, tc.profile, tc.args...)); diff != "" {
				t.Errorf("permissions (-want +got):\n%s", diff)
			}
		})
	}
}

// ownKeys is the one Secret that a program of ours may read: the exchange's signing keys. sweeping is how those begin and end that
// an uninstall may delete unread.
const ownKeys = "lanyard-exchange |  | secrets | lanyard-exchange-keys | get,update"

func sweeping(permission string) bool {
	return strings.HasPrefix(permission, "lanyard-uninstall |  | secrets | lanyard-ca,") || strings.HasPrefix(permission, "lanyard-uninstall |  | secrets | lanyard-connector-tls,")
}

func TestNoPermissionIsBroad(t *testing.T) {
	t.Parallel()
	for profile := range profiles(t) {
		for _, p := range permissions(t, profile) {
			for _, broad := range []string{"*", "impersonate", "serviceaccounts/token", "escalate", "bind,", "secrets"} {
				if strings.Contains(p, broad) && p != ownKeys && !(sweeping(p) && strings.HasSuffix(p, " | delete")) {
					t.Errorf("%s: %s", profile, p)
				}
			}
		}
	}
}
