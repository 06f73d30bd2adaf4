//go:build unix

package redteam

import (
	"net/http"
	"slices"
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
		"a Job":                              {[]object{ref("batch/v1", "Job", true)}, 403, false},
		"a Job of a version that is unknown": {[]object{ref("batch/v9", "Job", true)}, 403, false},
		"no owner":                           {nil, 201, true},
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

// TestOwnPodOfAnotherPersonsJob forges a pod of somebody else's Job, by owner reference, by labels, and by both, and tries to
// make one of a bare pod afterwards.
func TestOwnPodOfAnotherPersonsJob(t *testing.T) {
	t.Parallel()
	w := redteam(t)
	theirs := w.as(bystander).create(t, managed, "batch/v1/jobs", job()).accepted(t)
	uid, name := text(theirs, "metadata", "uid"), text(theirs, "metadata", "name")
	forged := pod(podtest.Label("batch.kubernetes.io/controller-uid", uid), podtest.Label("batch.kubernetes.io/job-name", name))
	forged.At("metadata")["ownerReferences"] = []any{object{"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": uid, "controller": true}}
	mallory := w.as(attacker)
	mallory.create(t, managed, "pods", forged).refused(t, byOwner, "Job "+name+" as its controller")
	owners := forged.At("metadata")["ownerReferences"]
	delete(forged.At("metadata"), "ownerReferences")
	mallory.create(t, managed, "pods", forged).refused(t, byOwner, "batch.kubernetes.io/controller-uid", "that controller did not create it")
	path := at(managed, "pods") + "/" + mallory.pod(t, managed).name(t)
	for _, metadata := range []object{{"ownerReferences": owners}, {"labels": object{"batch.kubernetes.io/controller-uid": uid}}, {"labels": object{"job-name": name}}} {
		mallory.do(t.Context(), http.MethodPatch, path, object{"metadata": metadata}).refused(t, "policy lanyard-owners", "")
		w.root().do(t.Context(), http.MethodPatch, path, object{"metadata": metadata}).refused(t, "policy lanyard-owners", "")
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
		// The template is guarded, too, against everybody but its creator.
		own := refusal{byRequired, "may not submit work"}
		c.do(t.Context(), http.MethodPatch, path, back).refusedByOne(t, own, refusal{"policy lanyard-job-templates", "the pods of this Job act for"})
		c.do(t.Context(), http.MethodPatch, cronPath, cronBack).refusedByOne(t, own, refusal{"policy lanyard-job-templates", "the pods of this CronJob act for"})
	}
	posing.do(t.Context(), http.MethodPatch, cronPath, object{"spec": object{"suspend": true}}).accepted(t)
	// A person's work may opt in again.
	persons := w.as(attacker).create(t, managed, "batch/v1/cronjobs", cronJob(none))
	w.as(attacker).do(t.Context(), http.MethodPatch, at(managed, "batch/v1/cronjobs")+"/"+persons.name(t), cronBack).accepted(t)
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

// TestOwnAccountInAForgedJob has an account that may not submit say that its pod is a Job's, since accounts are not asked
// about pods that have a controller.
func TestOwnAccountInAForgedJob(t *testing.T) {
	t.Parallel()
	c := redteam(t).as(attacker).with("Impersonate-User", helper)
	c.pod(t, managed, podtest.Owner("batch/v1", "Job")).refusedByOne(t,
		refusal{byRequired, helper + " may not submit work"}, refusal{"policy lanyard-job-pods", "was not created by the controller of that kind"})
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
