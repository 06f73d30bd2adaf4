//go:build unix

package redteam

import (
	"context"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/lanyard-k8s/lanyard/test/podtest"
)

func TestA15RoleLabelWithoutTheRight(t *testing.T) {
	t.Parallel()
	documented(t, "nothing is added, a warning says why", "namespace labels decide")
	mallory := redteam(t).as(attacker)
	a := mallory.pod(t, plain, asPublisher())
	if stored := a.accepted(t); value(stored, "spec", "volumes") != nil || text(stored, "metadata", "labels", "lanyard.dev/injected") != "" {
		t.Errorf("the pod got something: %v", stored)
	}
	a.warned(t, "label lanyard.dev/role: publisher gives no token here")
	a = mallory.pod(t, managed, asPublisher())
	if got := text(a.accepted(t), "metadata", "labels", "lanyard.dev/injected"); got != "job" {
		t.Errorf("in a managed namespace it is injected as %q, want job alone", got)
	}
	a.warned(t, "label lanyard.dev/role: publisher gives no token here")
	mallory.pod(t, plain, podtest.Label(roleKey, "job")).warned(t, "neither publisher nor none")
	mallory.pod(t, managed, podtest.Label(roleKey, "None")).refused(t, byJob, "metadata_invalid", "metadata.labels[lanyard.dev/role]")
}

func TestA16RoleLabelAddedLater(t *testing.T) {
	t.Parallel()
	documented(t, "no effect", "nothing to enforce")
	mallory := redteam(t).as(attacker)
	for _, namespace := range []string{publishing, plain, managed} {
		made := mallory.pod(t, namespace)
		before := made.accepted(t)
		path := at(namespace, "pods") + "/" + made.name(t)
		after := mallory.do(t.Context(), http.MethodPatch, path, object{"metadata": object{"labels": object{roleKey: "publisher"}}}).accepted(t)
		if !reflect.DeepEqual(value(before, "spec"), value(after, "spec")) {
			t.Errorf("in %s the label has changed the spec: %v", namespace, value(after, "spec"))
		}
		mallory.do(t.Context(), http.MethodPatch, path, object{"metadata": object{"labels": object{"lanyard.dev/injected": "publisher"}}}).
			refused(t, byInjected, "never set, changed or removed afterwards")
	}
}

func TestA17MakeAJobDirectly(t *testing.T) {
	t.Parallel()
	documented(t, "it is a managed job, and acts for who made it", "creator stamp (policy)")
	w := redteam(t)
	mallory := w.as(attacker)
	forged := func(o object) object {
		o.At("metadata", "annotations")[stampKey] = bystander
		o.At("metadata", "labels")["nmp.nvidia.com/managed_by"] = "jobs-controller"
		return o
	}
	stored := mallory.create(t, managed, "batch/v1/jobs", forged(job()))
	if got := text(stored.accepted(t), "metadata", "annotations", stampKey); got != attacker {
		t.Errorf("the Job is stamped %q, want %q", got, attacker)
	}
	path := at(managed, "batch/v1/jobs") + "/" + stored.name(t)
	again := mallory.do(t.Context(), http.MethodPatch, path, object{"metadata": object{"annotations": object{stampKey: bystander}}})
	if got := text(again.accepted(t), "metadata", "annotations", stampKey); got != attacker {
		t.Errorf("after a patch the Job is stamped %q, want %q", got, attacker)
	}
	mallory.do(t.Context(), http.MethodPatch, path+"/status", object{"metadata": object{"annotations": object{stampKey: bystander}}}).
		refused(t, "cannot patch resource", "jobs/status")
	w.root().do(t.Context(), http.MethodPatch, path+"/status", object{"metadata": object{"annotations": object{stampKey: bystander}}}).
		refused(t, byStamp, "never added, changed or removed afterwards")
	var made object
	eventually(t, "the job has a pod", func(ctx context.Context) (bool, error) {
		list := mallory.do(ctx, http.MethodGet, at(managed, "pods")+"?labelSelector=batch.kubernetes.io/job-name%3D"+stored.name(t), nil)
		items, _ := value(decoded(t, string(list.body)), "items").([]any)
		if len(items) == 1 {
			made = items[0].(map[string]any)
		}
		return len(items) == 1, nil
	})
	if got := text(made, "metadata", "annotations", stampKey); got != "system:serviceaccount:kube-system:job-controller" {
		t.Errorf("the Job's pod is stamped %q, want its controller's name", got)
	}
	if got := holders(made, jobVolume); !slices.Equal(got, []string{"main"}) {
		t.Errorf("the containers with the token are %q", got)
	}
	// Where nothing is managed nothing is stamped, and a stamp that is not the creator's is refused.
	mallory.create(t, plain, "batch/v1/jobs", forged(job())).refused(t, byStamp, "names somebody else")
	mallory.create(t, plain, "batch/v1/cronjobs", forged(cronJob())).refused(t, byStamp, "names somebody else")
	mallory.pod(t, plain, podtest.Annotation(stampKey, bystander)).refused(t, byStamp, "names somebody else")
}

// cronJob is a CronJob that never starts.
func cronJob(edits ...podtest.Edit) object {
	return object{
		"apiVersion": "batch/v1", "kind": "CronJob", "metadata": object{"generateName": "cron-"},
		"spec": object{"schedule": "0 0 30 2 *", "jobTemplate": object{"spec": job(edits...)["spec"]}},
	}
}

// TestA18UseAPublishersAccount shows the limit: whoever may create pods in a namespace may use every account in it. Labels
// and policies see a listed publisher.
func TestA18UseAPublishersAccount(t *testing.T) {
	t.Parallel()
	documented(t, "**not prevented**", "RBAC: keep publishers in a namespace of their own")
	stored := redteam(t).as(attacker).pod(t, listed, account("monitor"), podtest.Containers(podtest.Container("shell"))).accepted(t)
	if got := holders(stored, publisherVolume); !slices.Equal(got, []string{"shell"}) {
		t.Errorf("the containers with the token are %q, want the limit as documented", got)
	}
}

func TestA19AnotherWebhookUndoes(t *testing.T) {
	t.Parallel()
	documented(t, "refused: the audience of the other account, or `not_injected`", "finished pod")
	w := redteam(t)
	mallory := w.as(attacker)
	w.inject(t, "zzz-", "swap", never, `[{"op":"add","path":"/spec/serviceAccountName","value":"default"},{"op":"add","path":"/spec/serviceAccount","value":"default"}]`)
	w.inject(t, "zzz-", "late", never, `[{"op":"add","path":"/spec/serviceAccountName","value":"monitor"},{"op":"add","path":"/spec/serviceAccount","value":"monitor"}]`)
	w.inject(t, "zzz-", "once", never, `[{"op":"remove","path":"/spec/containers/0/volumeMounts"}]`)
	w.inject(t, "zzz-", "strip", ifNeeded, `[{"op":"remove","path":"/spec/containers/0/volumeMounts"}]`)
	w.inject(t, "zzz-", "empty", ifNeeded, `[{"op":"add","path":"/spec/volumes","value":[]},{"op":"add","path":"/spec/containers/0/volumeMounts","value":[]}]`)
	w.inject(t, "zzz-", "role", never, `[{"op":"add","path":"/metadata/labels/lanyard.dev~1role","value":"publisher"}]`)
	inject := func(label string) podtest.Edit { return podtest.Label("inject", label) }
	mallory.pod(t, listed, account("monitor"), inject("swap")).refused(t, byAudience, "service account red-listed/default")
	mallory.pod(t, listed, inject("late")).refused(t, "webhook listed.validate.lanyard.dev", "not_injected", "the service account was set too late")
	if got := holders(mallory.pod(t, managed, inject("once")).accepted(t), jobVolume); !slices.Equal(got, []string{"main"}) {
		t.Errorf("after a single theft the containers with the token are %q, want it healed by the second round", got)
	}
	mallory.pod(t, managed, inject("strip")).refused(t, byJobCheck, "not_injected", "another admission webhook removed")
	mallory.pod(t, managed, inject("empty")).refused(t, byInjected, "another admission webhook removed the volume")
	mallory.pod(t, publishing, inject("role")).refused(t, byPubCheck, "not_injected", "came too late")
}

// TestA20HideTheLabel takes the role label away before ours is asked, and after it.
func TestA20HideTheLabel(t *testing.T) {
	t.Parallel()
	documented(t, "no token, no harm", "receiver")
	w := redteam(t)
	mallory := w.as(attacker)
	mallory.do(t.Context(), http.MethodPost, mutating, object{"metadata": object{"name": "mine"}}).refused(t, "cannot create resource", "mutatingwebhookconfigurations")
	const hide = `[{"op":"remove","path":"/metadata/labels/lanyard.dev~1role"}]`
	w.inject(t, "aaa-", "hide-early", never, `[{"op":"add","path":"/metadata/labels/lanyard.dev~1role","value":""},{"op":"remove","path":"/metadata/labels/lanyard.dev~1role"}]`)
	w.inject(t, "zzz-", "hide-late", never, `[{"op":"add","path":"/metadata/labels/lanyard.dev~1role","value":""},`+hide[1:])
	stored := mallory.pod(t, publishing, asPublisher(), podtest.Label("inject", "hide-early")).accepted(t)
	if value(stored, "spec", "volumes") != nil {
		t.Errorf("a pod without the label got volumes: %v", value(stored, "spec", "volumes"))
	}
	mallory.pod(t, publishing, asPublisher(), podtest.Label("inject", "hide-late")).refused(t, byAudience, "nor does the pod have the publisher role")
}

func TestA21NothingManagedHere(t *testing.T) {
	t.Parallel()
	documented(t, "audience: refused. Variables: allowed", "policy")
	mallory := redteam(t).as(attacker)
	var edits []podtest.Edit
	for _, name := range reservedNames() {
		edits = append(edits, podtest.Env(name, "mine"))
	}
	stored := mallory.pod(t, plain, mainWith(append(edits, podtest.EnvFrom("NMP_"))...)).accepted(t)
	if got, _ := env(stored, 0, "NMP_PRINCIPAL"); got != "mine" {
		t.Errorf("NMP_PRINCIPAL is %q", got)
	}
	if list, _ := value(stored, "spec", "containers", 0, "env").([]any); len(list) != len(reservedNames()) {
		t.Errorf("something was added: %v", list)
	}
	mallory.pod(t, plain, projecting("x", tokenSource(jobAudience))).refused(t, byAudience, "only pods of managed jobs")
}

func TestA22LabelTheNamespace(t *testing.T) {
	t.Parallel()
	documented(t, "refused", "`lanyard-namespace-labels`")
	w := redteam(t)
	portal := w.as(provisioner)
	w.as(attacker).do(t.Context(), http.MethodPatch, "/api/v1/namespaces/"+plain, object{"metadata": object{"labels": object{"lanyard.dev/jobs": "managed"}}}).
		refused(t, "cannot patch resource", "namespaces")
	for key, value := range map[string]string{"lanyard.dev/jobs": "managed", "lanyard.dev/publishers": "enabled", "lanyard.dev/x": ""} {
		label := object{"metadata": object{"name": plain, "labels": object{key: value}}}
		fresh := object{"metadata": object{"generateName": "red-own-", "labels": object{key: value}}}
		portal.do(t.Context(), http.MethodPost, "/api/v1/namespaces", fresh).refused(t, byLabels, "namespace label "+key)
		for _, sub := range []string{"", "/status", "/finalize"} {
			path := "/api/v1/namespaces/" + plain + sub
			if sub != "/finalize" {
				portal.do(t.Context(), http.MethodPatch, path, label).refused(t, byLabels, "namespace label "+key)
				apply := fmt.Sprintf(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":%q,"labels":{%q:%q}}}`, plain, key, value)
				portal.send(t.Context(), http.MethodPatch, path+"?fieldManager=red&force=true", "application/apply-patch+yaml", []byte(apply)).
					refused(t, byLabels, "namespace label "+key)
			}
			current := portal.do(t.Context(), http.MethodGet, "/api/v1/namespaces/"+plain, nil).accepted(t)
			current["metadata"].(map[string]any)["labels"].(map[string]any)[key] = value
			portal.do(t.Context(), http.MethodPut, path, current).refused(t, byLabels, "namespace label "+key)
		}
	}
	// What the admin has set can neither be changed nor taken away, by a null or by a list of the other labels.
	for _, labels := range []any{object{"lanyard.dev/jobs": nil}, object{"lanyard.dev/jobs": "off"}, nil} {
		portal.do(t.Context(), http.MethodPatch, "/api/v1/namespaces/"+managed, object{"metadata": object{"labels": labels}}).
			refused(t, byLabels, "lanyard.dev/jobs")
	}
	portal.do(t.Context(), http.MethodPatch, "/api/v1/namespaces/"+managed, object{"metadata": object{"labels": object{"team": "x"}}}).accepted(t)
}

func TestA23LookLikeLanyard(t *testing.T) {
	t.Parallel()
	documented(t, "no exemption by label exists", "excluded by name")
	w := redteam(t)
	mallory := w.as(attacker)
	disguise := []podtest.Edit{
		podtest.Label("app.kubernetes.io/name", "lanyard"), podtest.Label("app.kubernetes.io/component", "webhook"),
		podtest.Label("app.kubernetes.io/part-of", "lanyard"), podtest.Label("control-plane", "controller-manager"),
		podtest.Label("admission.lanyard.dev/ignore", "true"), podtest.Annotation("lanyard.dev/skip", "true"),
		func(p object) { p.At("metadata")["name"] = "lanyard-webhook"; delete(p.At("metadata"), "generateName") },
	}
	mallory.pod(t, managed, append(disguise, mainWith(podtest.Env("NMP_PRINCIPAL", "root")))...).refused(t, byJob, "reserved_env")
	mallory.pod(t, plain, append(disguise, projecting("x", tokenSource(jobAudience)), account("default"))...).refused(t, byAudience, "only pods of managed jobs")
	if err := w.root().account(t.Context(), plain+"/lanyard-exchange"); err != nil {
		t.Fatal(err)
	}
	mallory.pod(t, plain, projecting("x", tokenSource(jobAudience)), account("lanyard-exchange")).refused(t, byAudience, "only pods of managed jobs")
	mallory.pod(t, w.in.Namespace()).refused(t, "cannot create resource", "pods")
}

func TestA24PoseAsAMirrorPod(t *testing.T) {
	t.Parallel()
	documented(t, "checked like any pod, unless the caller is a node", "look at the caller")
	w := redteam(t)
	mirror := []podtest.Edit{
		podtest.Annotation("kubernetes.io/config.mirror", "0123"), podtest.Spec("nodeName", "red-node"),
		func(p object) { delete(p.At("spec"), "serviceAccountName") },
	}
	bad := append(slices.Clone(mirror), mainWith(podtest.Env("NMP_PRINCIPAL", "root")))
	w.as(attacker).pod(t, managed, bad...).refused(t, byJob, "reserved_env")
	w.as(attacker).pod(t, plain, append(slices.Clone(mirror), projecting("x", tokenSource(jobAudience)))...).
		refused(t, "a mirror pod may not use ServiceAccountToken volume projections", "")
	node := w.as("system:node:red-node", "system:nodes")
	made := w.root().do(t.Context(), http.MethodPost, "/api/v1/nodes", object{"metadata": object{"name": "red-node"}}).accepted(t)
	owner := func(p object) {
		p.At("metadata")["ownerReferences"] = []any{object{"apiVersion": "v1", "kind": "Node", "name": "red-node", "uid": text(made, "metadata", "uid"), "controller": true}}
		p.At("metadata")["name"] = "static-red-node"
		delete(p.At("metadata"), "generateName")
	}
	stored := node.pod(t, managed, append(bad, owner)...).accepted(t)
	if got := text(stored, "metadata", "annotations", stampKey); got != "system:node:red-node" {
		t.Errorf("the mirror is stamped %q", got)
	}
	if value(stored, "spec", "volumes") != nil || strings.Contains(fmt.Sprint(stored), jobVolume) {
		t.Errorf("the mirror was injected: %v", stored)
	}
	// A node cannot make any other pod, so the exemption reaches no further.
	node.pod(t, managed).refused(t, "pod does not have", "kubernetes.io/config.mirror")
}
