//go:build unix

package redteam

import (
	"net/http"
	"strings"
	"testing"

	"github.com/lanyard-k8s/lanyard/test/podtest"
)

// TestOwnImpersonation uses what the role edit really grants: to act as any service account of the namespace. Accounts are
// nobody's submitter, so that nothing is won.
func TestOwnImpersonation(t *testing.T) {
	t.Parallel()
	w := redteam(t)
	mallory := w.as(attacker)
	posing := mallory.with("Impersonate-User", helper)
	for _, c := range []*client{posing, posing.with("Impersonate-Extra-Lanyard.dev%2fsubmitter", bystander)} {
		if c != posing {
			c.create(t, managed, "batch/v1/jobs", job()).refused(t, "cannot impersonate resource", "userextras")
			continue
		}
		c.create(t, managed, "batch/v1/jobs", job()).refused(t, byRequired, helper+" may not submit work")
		c.create(t, managed, "batch/v1/cronjobs", cronJob()).refused(t, byRequired, "may not submit work")
		c.pod(t, managed).refused(t, byRequired, "may not submit work")
		c.pod(t, managed, podtest.Annotation("kubernetes.io/config.mirror", "x"), podtest.Spec("nodeName", "n"), func(p object) { delete(p.At("spec"), "serviceAccountName") }).
			refused(t, "a mirror pod may not use ServiceAccountToken volume projections", "")
		stored := c.pod(t, managed, podtest.Label(roleKey, "none")).accepted(t)
		if got := text(stored, "metadata", "annotations", stampKey); got != helper || len(holders(stored, jobVolume)) > 0 {
			t.Errorf("the helper's pod is stamped %q and holds the token in %q", got, holders(stored, jobVolume))
		}
	}
	for _, user := range []string{bystander, "admin", "system:serviceaccount:kube-system:job-controller", "system:serviceaccount:red-plain2:submitter", "system:node:n"} {
		mallory.with("Impersonate-User", user).pod(t, managed).refused(t, "cannot impersonate resource", "")
	}
	posing.with("Impersonate-Group", "system:nodes").pod(t, managed).refused(t, "cannot impersonate resource", "groups")
	// A listed account inside a namespace with other editors would be theirs to use: that is why it must stand elsewhere.
	submitter := mallory.with("Impersonate-User", "system:serviceaccount:red-plain:submitter")
	if a := submitter.create(t, managed, "batch/v1/jobs", job()); a.code != http.StatusForbidden || !strings.Contains(a.message, "cannot create resource") {
		t.Errorf("an account of another namespace is answered with %d: %s", a.code, a.message)
	}
}

// TestOwnUnusualNames stamps people with names that quoting, trimming or case folding would change.
func TestOwnUnusualNames(t *testing.T) {
	t.Parallel()
	w := redteam(t)
	for _, user := range []string{
		"Alice", "alice ", " alice", "ünï@example.com", "a/b~1c", `quote"\'`, "https://issuer.example#alice", "oidc:alice", "name\twith tab",
		strings.Repeat("l", 300), "<script>", "{{ alice }}", "$(alice)", "名前", "ſystem:masters", "alice\u200b", "%2e%2e", "null", "0",
	} {
		c := w.root().with("Impersonate-User", user).with("Impersonate-Group", "system:masters")
		if strings.ContainsAny(user, "\t") || user != strings.TrimSpace(user) {
			c = w.as(user, "system:masters") // a header would lose these, a certificate does not
		}
		stored := c.pod(t, managed, podtest.Annotation(stampKey, "alice")).accepted(t)
		if got := text(stored, "metadata", "annotations", stampKey); got != user {
			t.Errorf("%q is stamped %q", user, got)
		}
		c.pod(t, plain, podtest.Annotation(stampKey, user)).accepted(t)
		for _, other := range []string{user + " ", " " + user, strings.ToUpper(user) + "X", ""} {
			c.pod(t, plain, podtest.Annotation(stampKey, other)).refused(t, byStamp, "names somebody else")
		}
	}
	for _, user := range []string{"system:x", "SYSTEM:serviceaccount:red-managed:helper", "Service:bot", "service:", "sYsTeM:kube-controller-manager"} {
		w.as(user, "system:masters").pod(t, managed).refused(t, byRequired, "may not submit work")
	}
}

// TestOwnBecomePlatformAdmin tries to get the right to label namespaces with the rights of a namespace's admin.
func TestOwnBecomePlatformAdmin(t *testing.T) {
	t.Parallel()
	w := redteam(t)
	const user = "owner"
	if err := w.grant(t.Context(), plain, "admin", user); err != nil {
		t.Fatal(err)
	}
	owner := w.as(user)
	eventually(t, "the owner has rights", may(w, owner, plain, "create", "rbac.authorization.k8s.io", "rolebindings"))
	rule := []any{object{"apiGroups": []string{"lanyard.dev"}, "resources": []string{"platform"}, "verbs": []string{"administer"}}}
	aggregated := object{"metadata": object{"name": "red-aggregated", "labels": object{
		"rbac.authorization.k8s.io/aggregate-to-admin": "true", "rbac.authorization.k8s.io/aggregate-to-edit": "true",
	}}, "rules": rule}
	owner.do(t.Context(), http.MethodPost, rbac+"clusterroles", aggregated).refused(t, "cannot create resource", "clusterroles")
	owner.do(t.Context(), http.MethodPatch, rbac+"clusterroles/lanyard-platform-admin", object{"metadata": object{"labels": object{"x": "y"}}}).refused(t, "cannot patch resource", "clusterroles")
	owner.do(t.Context(), http.MethodPost, rbac+"namespaces/"+plain+"/roles", object{"metadata": object{"name": "mine"}, "rules": rule}).
		refused(t, "attempting to grant RBAC permissions not currently held", "administer")
	bind := object{
		"metadata": object{"name": "mine"}, "roleRef": object{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "lanyard-platform-admin"},
		"subjects": []any{object{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": provisioner}},
	}
	owner.do(t.Context(), http.MethodPost, rbac+"namespaces/"+plain+"/rolebindings", bind).refused(t, "attempting to grant RBAC permissions not currently held", "administer")
	// Should an admin bind the role in a namespace by mistake, it still says nothing about namespaces: the right is the cluster's.
	w.root().do(t.Context(), http.MethodPost, rbac+"namespaces/"+plain+"/rolebindings", bind).accepted(t)
	eventually(t, "the binding is known", may(w, w.as(provisioner), plain, "administer", "lanyard.dev", "platform"))
	w.as(provisioner).do(t.Context(), http.MethodPatch, "/api/v1/namespaces/"+plain, object{"metadata": object{"labels": object{"lanyard.dev/jobs": "managed"}}}).
		refused(t, byLabels, "platform admins only")
}

// TestOwnNamesThatAreNoText has an authenticator hand over a name that is not UTF-8, as an impersonation header can. JSON
// would carry every such name as the same replacement character, so that stamps of different people would be equal.
func TestOwnNamesThatAreNoText(t *testing.T) {
	t.Parallel()
	w := redteam(t)
	for _, user := range []string{"alice\xff", "\xfe\xff"} {
		c := w.root().with("Impersonate-User", user).with("Impersonate-Group", "system:masters")
		c.pod(t, managed).refused(t, byStamp, "names somebody else")
		c.create(t, managed, "batch/v1/jobs", job()).refused(t, byStamp, "names somebody else")
		c.pod(t, plain, podtest.Annotation(stampKey, strings.ToValidUTF8(user, "\ufffd"))).refused(t, byStamp, "names somebody else")
	}
}
