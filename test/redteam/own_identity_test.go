//go:build unix

package redteam

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/lanyard-k8s/lanyard/test/podtest"
)

// TestOwnOwnerReferences tries to look like a job's pod, or not like one, by references that are read in several ways.
func TestOwnOwnerReferences(t *testing.T) {
	t.Parallel()
	mallory := redteam(t).as(attacker)
	owned := func(refs ...object) podtest.Edit {
		return func(p object) {
			list := []any{}
			for _, r := range refs {
				list = append(list, r)
			}
			p.At("metadata")["ownerReferences"] = list
		}
	}
	ref := func(apiVersion, kind string, controller any) object {
		return object{"apiVersion": apiVersion, "kind": kind, "name": "x", "uid": "11111111-2222-3333-4444-555555555555", "controller": controller}
	}
	for name, tc := range map[string]struct {
		refs   []object
		code   int
		tokens bool
	}{
		"a Job":                              {[]object{ref("batch/v1", "Job", true)}, 201, true},
		"a Job of a version that is unknown": {[]object{ref("batch/v9", "Job", true)}, 201, true},
		"a Job that does not control":        {[]object{ref("batch/v1", "Job", false), ref("apps/v1", "ReplicaSet", true)}, 201, false},
		"a Job in small letters":             {[]object{ref("batch/v1", "job", true)}, 201, false},
		"a group in capitals":                {[]object{ref("Batch/v1", "Job", true)}, 201, false},
		"a group with more":                  {[]object{ref("batch.example.com/v1", "Job", true)}, 201, false},
		"no group":                           {[]object{ref("v1", "Job", true)}, 201, false},
		"an empty group":                     {[]object{ref("/v1", "Job", true)}, 201, false},
		"two controllers":                    {[]object{ref("batch/v1", "Job", true), ref("apps/v1", "ReplicaSet", true)}, 422, false},
		"a slash too many":                   {[]object{ref("batch/v1/x", "Job", true)}, 422, false},
		"a slash too early":                  {[]object{ref("batch//v1", "Job", true)}, 422, false},
		"no version":                         {[]object{ref("batch/", "Job", true)}, 422, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := mallory.pod(t, managed, owned(tc.refs...))
			if a.code != tc.code {
				t.Fatalf("answered with %d, want %d: %s", a.code, tc.code, a.message)
			}
			if tc.code == http.StatusCreated && (len(holders(a.stored(t), jobVolume)) > 0) != tc.tokens {
				t.Errorf("the containers with the token are %q", holders(a.stored(t), jobVolume))
			}
			if tc.code == http.StatusCreated && !tc.tokens {
				mallory.pod(t, managed, owned(tc.refs...), ownVolume()).refused(t, byJob, "volume_conflict")
			}
		})
	}
}

// TestOwnPodOfAnotherPersonsJob shows a limit of this half: a pod that says it is of somebody else's Job is admitted with a
// token, like any bare pod. The pod's own stamp tells who made it, which is not the Job's controller; the receiver must ask.
func TestOwnPodOfAnotherPersonsJob(t *testing.T) {
	t.Parallel()
	w := redteam(t)
	theirs := w.as(bystander).create(t, managed, "batch/v1/jobs", job()).accepted(t)
	uid, name := text(theirs, "metadata", "uid"), text(theirs, "metadata", "name")
	forged := pod(podtest.Label("batch.kubernetes.io/controller-uid", uid), podtest.Label("batch.kubernetes.io/job-name", name))
	forged.At("metadata")["ownerReferences"] = []any{object{"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": uid, "controller": true}}
	stored := w.as(attacker).create(t, managed, "pods", forged).accepted(t)
	if got := text(stored, "metadata", "annotations", stampKey); got != attacker {
		t.Errorf("the pod is stamped %q: nothing tells it from the Job's own", got)
	}
}

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

// TestOwnOptOutAndBack has an account that may not submit make work without identity, which it may, and give the identity
// back afterwards.
func TestOwnOptOutAndBack(t *testing.T) {
	t.Parallel()
	w := redteam(t)
	posing := w.as(attacker).with("Impersonate-User", helper)
	none := podtest.Label(roleKey, "none")
	suspended := job(none)
	suspended.At("spec")["suspend"] = true
	made := posing.create(t, managed, "batch/v1/jobs", suspended)
	path := at(managed, "batch/v1/jobs") + "/" + made.name(t)
	back := object{"spec": object{"template": object{"metadata": object{"labels": object{roleKey: nil}}}}}
	cron := posing.create(t, managed, "batch/v1/cronjobs", cronJob(none))
	cronPath := at(managed, "batch/v1/cronjobs") + "/" + cron.name(t)
	cronBack := object{"spec": object{"jobTemplate": back}}
	for _, c := range []*client{posing, w.as(attacker), w.root()} {
		c.do(t.Context(), http.MethodPatch, path, back).refused(t, byRequired, helper+" may not submit work")
		c.do(t.Context(), http.MethodPatch, cronPath, cronBack).refused(t, byRequired, "may not submit work")
	}
	posing.do(t.Context(), http.MethodPatch, cronPath, object{"spec": object{"suspend": true}}).accepted(t)
	// A person's work may opt in again.
	persons := w.as(attacker).create(t, managed, "batch/v1/cronjobs", cronJob(none))
	w.as(attacker).do(t.Context(), http.MethodPatch, at(managed, "batch/v1/cronjobs")+"/"+persons.name(t), cronBack).accepted(t)
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

// TestOwnBindingsAndSubresources writes what is guarded by ways that are not an UPDATE of the object.
func TestOwnBindingsAndSubresources(t *testing.T) {
	t.Parallel()
	w := redteam(t)
	made := w.as(attacker).pod(t, managed)
	before := made.accepted(t)
	path := at(managed, "pods") + "/" + made.name(t)
	marks := object{"annotations": object{stampKey: bystander, "lanyard.dev/job-containers": "x"}, "labels": object{"lanyard.dev/injected": "publisher.job"}}
	binding := func(metadata object) object {
		metadata["name"] = made.name(t)
		return object{"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": object{"kind": "Node", "name": "red-nowhere"}}
	}
	w.as(attacker).do(t.Context(), http.MethodPost, path+"/binding", binding(object{})).refused(t, "cannot create resource", "pods/binding")
	for _, m := range []object{
		{"annotations": object{stampKey: bystander}}, {"labels": object{"lanyard.dev/injected": "publisher"}}, {"labels": object{"lanyard.dev/role": "none"}},
		{"labels": object{"batch.kubernetes.io/controller-uid": "1"}}, {"labels": object{"job-name": "x"}}, {"annotations": object{"lanyard.dev/": ""}},
	} {
		w.root().do(t.Context(), http.MethodPost, path+"/binding", binding(m)).refused(t, byBinding, "copied onto its pod")
		w.root().create(t, managed, "bindings", binding(m)).refused(t, byBinding, "copied onto its pod")
	}
	w.root().do(t.Context(), http.MethodPatch, path+"/status", object{"metadata": object{"annotations": object{stampKey: bystander}}}).refused(t, byStamp, "never added, changed or removed")
	w.root().do(t.Context(), http.MethodPatch, path+"/status", object{"metadata": object{"labels": object{"lanyard.dev/injected": "publisher"}}}).refused(t, byInjected, "never set, changed or removed")
	w.root().do(t.Context(), http.MethodPatch, path, object{"metadata": marks}).refused(t, "denied request", "lanyard.dev/")
	// These subresources keep the metadata of the pod that is stored.
	for _, sub := range []string{"/resize", "/ephemeralcontainers"} {
		after := w.root().do(t.Context(), http.MethodPatch, path+sub, object{"metadata": object{"annotations": object{"lanyard.dev/job-containers": "x"}, "labels": object{"lanyard.dev/x": "y"}}})
		if after.code == http.StatusOK && (text(after.stored(t), "metadata", "annotations", "lanyard.dev/job-containers") != "main" || text(after.stored(t), "metadata", "labels", "lanyard.dev/x") != "") {
			t.Errorf("%s has changed the metadata: %v", sub, value(after.stored(t), "metadata"))
		}
	}
	status := object{"status": object{"ephemeralContainerStatuses": []any{object{"name": "x", "image": "y", "imageID": "z", "ready": true, "restartCount": 0}}}}
	after := w.root().do(t.Context(), http.MethodPatch, path+"/status", status).accepted(t)
	if value(after, "spec", "ephemeralContainers") != nil || !slices.Equal(holders(after, jobVolume), holders(before, jobVolume)) {
		t.Errorf("a status has changed the spec: %v", value(after, "spec"))
	}
	// Clearing a deployment away and scaling it are nobody's business here.
	app := w.as(attacker).create(t, managed, "apps/v1/deployments", deployment())
	w.as(attacker).do(t.Context(), http.MethodPatch, at(managed, "apps/v1/deployments")+"/"+app.name(t)+"/scale", object{"spec": object{"replicas": 0}}).accepted(t)
	w.as(attacker).do(t.Context(), http.MethodPost, path+"/eviction", object{"apiVersion": "policy/v1", "kind": "Eviction", "metadata": object{"name": made.name(t)}}).accepted(t)
	w.as(attacker).do(t.Context(), http.MethodDelete, at(managed, "configmaps")+"?labelSelector=none%3Dsuch", nil).accepted(t)
}

// TestOwnServerSideApply takes over what ours has written, under another manager's name and by force.
func TestOwnServerSideApply(t *testing.T) {
	t.Parallel()
	w := redteam(t)
	apply := func(c *client, manager, namespace, resource, name, body string) answer {
		return c.send(t.Context(), http.MethodPatch, at(namespace, resource)+"/"+name+"?force=true&fieldManager="+manager, "application/apply-patch+yaml", []byte(body))
	}
	const spec = `{"restartPolicy":"Never","automountServiceAccountToken":false,"containers":[{"name":"main","image":"x:1"}]}`
	podWith := func(meta string) string {
		return `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"applied",` + meta + `},"spec":` + spec + `}`
	}
	jobWith := func(meta string) string {
		return `{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"applied",` + meta + `},"spec":{"template":{"spec":` + spec + `}}}`
	}
	stamp := `"annotations":{"lanyard.dev/created-by":"alice"}`
	mallory := w.as(attacker)
	for range 2 {
		stored := apply(mallory, "mine", managed, "pods", "applied", podWith(`"labels":{"a":"b"}`)).accepted(t)
		if got := text(stored, "metadata", "annotations", stampKey); got != attacker || !slices.Equal(holders(stored, jobVolume), []string{"main"}) {
			t.Errorf("the applied pod is stamped %q and holds the token in %q", got, holders(stored, jobVolume))
		}
		if got := text(apply(mallory, "mine", managed, "batch/v1/jobs", "applied", jobWith(`"labels":{"a":"b"}`)).accepted(t), "metadata", "annotations", stampKey); got != attacker {
			t.Errorf("the applied Job is stamped %q", got)
		}
	}
	apply(mallory, "other", managed, "pods", "applied", podWith(stamp)).refused(t, byStamp, "never added, changed or removed")
	apply(mallory, "mine", managed, "pods", "applied", podWith(`"labels":{"lanyard.dev/injected":"publisher"}`)).refused(t, byInjected, "never set, changed or removed")
	stored := apply(mallory, "other", managed, "batch/v1/jobs", "applied", jobWith(stamp)).accepted(t)
	if got := text(stored, "metadata", "annotations", stampKey); got != attacker {
		t.Errorf("an apply by force has stamped the Job %q", got)
	}
	// The manager that owns the stamp now lets it go.
	stored = apply(mallory, "other", managed, "batch/v1/jobs", "applied", jobWith(`"labels":{"c":"d"}`)).accepted(t)
	if got := text(stored, "metadata", "annotations", stampKey); got != attacker {
		t.Errorf("an apply that lets the stamp go leaves %q", got)
	}
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

// TestOwnAccountInAForgedJob has an account that may not submit say that its pod is a Job's, since accounts are not asked
// about pods that have a controller.
func TestOwnAccountInAForgedJob(t *testing.T) {
	t.Parallel()
	c := redteam(t).as(attacker).with("Impersonate-User", helper)
	c.pod(t, managed, podtest.Owner("batch/v1", "Job")).refused(t, byRequired, helper+" may not submit work")
	stored := c.pod(t, managed, podtest.Owner("apps/v1", "ReplicaSet")).accepted(t)
	if got := holders(stored, jobVolume); len(got) > 0 {
		t.Errorf("the containers with the token are %q", got)
	}
}

// TestOwnDecoyTemplate would have a custom job kind opt out by a template that nobody reads; the policy asks in any case. The
// kind is not configured here, so that the policy is tried by itself in package policy, and this test keeps the built-in
// kinds' way open.
func TestOwnDecoyTemplate(t *testing.T) {
	t.Parallel()
	c := redteam(t).as(attacker).with("Impersonate-User", helper)
	none := podtest.Label(roleKey, "none")
	c.create(t, managed, "batch/v1/jobs", job(none)).accepted(t)
	c.create(t, managed, "batch/v1/cronjobs", cronJob(none)).accepted(t)
	// On the object, or on a CronJob's Job, the label means nothing.
	for _, at := range [][]string{{"metadata", "labels"}, {"spec", "jobTemplate", "metadata", "labels"}} {
		decoy := cronJob()
		decoy.At(at...)[roleKey] = "none"
		c.create(t, managed, "batch/v1/cronjobs", decoy).refused(t, byRequired, helper+" may not submit work")
	}
	decoy := job()
	decoy.At("metadata", "labels")[roleKey] = "none"
	c.create(t, managed, "batch/v1/jobs", decoy).refused(t, byRequired, helper+" may not submit work")
}
