//go:build unix

package redteam

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/lanyard-k8s/lanyard/test/podtest"
)

const (
	byOwners    = "policy lanyard-owners"
	byTemplates = "policy lanyard-job-templates"
)

func TestX01Labels(t *testing.T) {
	attackX(t, "it is mallory's own, or nobody's", "reconciler")
	x := withExchange(t)
	mallory := x.as(attacker)
	dressed := []podtest.Edit{
		podtest.Annotation(stampKey, bystander), podtest.Annotation("lanyard.dev/submitter", bystander), podtest.Label("nmp.nvidia.com/managed_by", "jobs-controller"),
	}
	x.acts(x.bound(mallory.pod(t, managed, dressed...)), attacker)
	// Where nobody's work is managed there is nobody to act for, whatever the pod carries.
	mallory.pod(t, plain, dressed...).refused(t, byStamp, "")
	nobody := x.bound(mallory.pod(t, plain))
	if g := x.exchanged(x.token(nobody)); g.code != http.StatusServiceUnavailable || g.body["error"] != "temporarily_unavailable" {
		t.Errorf("a pod that nobody judges: %d %v", g.code, g.body)
	}
}

func TestX02ForgedOwner(t *testing.T) {
	attackX(t, "refused", byOwner)
	x := withExchange(t)
	victim, _ := x.victim()
	x.as(attacker).pod(t, managed, ownedBy(victim, "batch/v1", "Job")).
		refused(t, byOwner, "was not created by the controller of that kind", "Job "+text(victim, "metadata", "name"))
}

// ownedBy writes a controller reference.
func ownedBy(owner object, version, kind string) podtest.Edit {
	return func(p object) {
		p.At("metadata")["ownerReferences"] = []any{object{
			"apiVersion": version, "kind": kind, "name": text(owner, "metadata", "name"), "uid": text(owner, "metadata", "uid"), "controller": true,
		}}
	}
}

func TestX03AnOrphanToAdopt(t *testing.T) {
	attackX(t, "refused; adding them later is, too", byOwner, byOwners)
	x := withExchange(t)
	victim, lost := x.victim()
	mallory, uid := x.as(attacker), text(victim, "metadata", "uid")
	for _, label := range []string{"batch.kubernetes.io/controller-uid", "controller-uid"} {
		mallory.pod(t, managed, podtest.Label(label, uid)).refused(t, byOwner, label)
		own := mallory.pod(t, managed).accepted(t)
		mallory.do(t.Context(), http.MethodPatch, path(own, "pods"), object{"metadata": object{"labels": object{label: uid}}}).refused(t, byOwners, "")
	}
	// The victim's Job is still synced: its controller makes another pod where one is lost.
	x.as(bystander).do(t.Context(), http.MethodPatch, path(victim, "batch/v1/jobs"), object{"spec": object{"suspend": true}}).accepted(t)
	x.gone(lost)
	x.as(bystander).do(t.Context(), http.MethodPatch, path(victim, "batch/v1/jobs"), object{"spec": object{"suspend": false}}).accepted(t)
	x.acts(x.podOf(victim), bystander)
}

func TestX04SelectByHand(t *testing.T) {
	attackX(t, "refused", byTemplates)
	x := withExchange(t)
	_, pod := x.victim()
	greedy := job(podtest.Label("job-name", text(pod, "metadata", "labels", "job-name")))
	greedy.At("spec")["manualSelector"] = true
	greedy.At("spec")["selector"] = object{"matchLabels": object{"job-name": text(pod, "metadata", "labels", "job-name")}}
	x.as(attacker).create(t, managed, "batch/v1/jobs", greedy).refused(t, byTemplates, "manualSelector")
	x.acts(pod, bystander)
}

func TestX05SomebodyElsesStamp(t *testing.T) {
	attackX(t, "overwritten by the webhook, refused without it", byStamp)
	x := withExchange(t)
	lie := job()
	lie.At("metadata", "annotations")[stampKey] = bystander
	made := x.as(attacker).create(t, managed, "batch/v1/jobs", lie).accepted(t)
	x.acts(x.podOf(made), attacker)
	x.as(attacker).create(t, plain, "batch/v1/jobs", lie).refused(t, byStamp, "") // where the webhook stamps nothing
}

func TestX06OptInLater(t *testing.T) {
	attackX(t, "asked again who made it; a stamp is never added to what has none", byRequired, byStamp)
	x := withExchange(t)
	mallory := x.as(attacker)
	posing := mallory.with("Impersonate-User", helper)
	none := job(podtest.Label(roleKey, "none"))
	none.At("spec")["suspend"] = true
	quiet := posing.create(t, managed, "batch/v1/jobs", none).accepted(t)
	back := object{"spec": object{"template": object{"metadata": object{"labels": object{roleKey: nil}}}}}
	for _, c := range []*client{posing, mallory} {
		c.do(t.Context(), http.MethodPatch, path(quiet, "batch/v1/jobs"), back).
			refusedByOne(t, refusal{byRequired, "may not submit work"}, refusal{byTemplates, "the pods of this Job act for"})
	}
	unstamped := mallory.create(t, plain, "batch/v1/jobs", job()).accepted(t)
	mallory.do(t.Context(), http.MethodPatch, path(unstamped, "batch/v1/jobs"), object{"metadata": object{"annotations": object{stampKey: attacker}}}).
		refused(t, byStamp, "never added, changed or removed")
}

func TestX07TheSameNameAgain(t *testing.T) {
	attackX(t, "another UID, and mallory's", "row by UID")
	x := withExchange(t)
	victim, pod := x.victim()
	old := x.token(pod)
	mallory := x.as(attacker)
	mallory.do(t.Context(), http.MethodDelete, path(victim, "batch/v1/jobs")+"?propagationPolicy=Background", nil).accepted(t)
	x.gone(pod)
	again := job()
	delete(again.At("metadata"), "generateName")
	again.At("metadata")["name"] = text(victim, "metadata", "name")
	var made object
	eventually(t, "the name is free", func(ctx context.Context) (bool, error) {
		a := mallory.do(ctx, http.MethodPost, at(managed, "batch/v1/jobs"), again)
		if a.code == http.StatusCreated {
			made = a.stored(t)
		}
		return made != nil, nil
	})
	x.acts(x.podOf(made), attacker)
	// The API server remembers for ten seconds that it has accepted the old pod's token; its row says no at once.
	eventually(t, "the old pod's token is refused", func(context.Context) (bool, error) { return x.exchanged(old).code == http.StatusBadRequest, nil })
}

func TestX08AnotherImage(t *testing.T) {
	attackX(t, "refused", byImage)
	x := withExchange(t)
	_, pod := x.victim()
	image := object{"spec": object{"containers": []any{object{"name": "main", "image": "registry.example/evil:1"}}}}
	body, err := json.Marshal(image)
	must(t, err)
	for _, c := range []*client{x.as(attacker), x.as(bystander), x.root()} {
		c.send(t.Context(), http.MethodPatch, path(pod, "pods"), "application/strategic-merge-patch+json", body).refused(t, byImage, "image")
	}
}

func TestX09Exec(t *testing.T) {
	attackX(t, "refused, but for platform admins", byAccess, byImage)
	x := withExchange(t)
	_, pod := x.victim()
	mallory := x.as(attacker)
	for _, sub := range []string{"exec?command=cat&container=main&stdout=true", "attach?container=main&stdout=true", "portforward?ports=80", "proxy/"} {
		if a := mallory.do(t.Context(), http.MethodPost, path(pod, "pods")+"/"+sub, nil); a.code != http.StatusForbidden || !strings.Contains(a.message, "lanyard-pod-access") {
			t.Errorf("%s: %d %s", sub, a.code, a.message)
		}
	}
	// The role edit gives nobody the right to debug containers; whom somebody else gives it, the policy refuses.
	x.allow("red-debug", "debugger", object{"apiGroups": []string{""}, "resources": []string{"pods/ephemeralcontainers"}, "verbs": []string{"patch", "update"}})
	x.as("debugger").debug(t, managed, text(pod, "metadata", "name"), podtest.Container("dbg", podtest.Field("targetContainerName", "main"))).
		refused(t, byImage, "debug containers in a managed namespace are added by platform admins only")
}

func TestX10AskForTheVictimsToken(t *testing.T) {
	attackX(t, "refused", byTokens)
	x := withExchange(t)
	_, pod := x.victim()
	for _, c := range []*client{x.as(attacker), x.as(attacker).with("Impersonate-User", helper)} {
		a := x.tokenRequest(t.Context(), c, managed, "default", jobAudience, pod)
		if a.code != http.StatusForbidden {
			t.Errorf("answered with %d: %s", a.code, a.message)
		}
	}
	x.tokenRequest(t.Context(), x.as(attacker), managed, "default", jobAudience, pod).refused(t, byTokens, "")
}

func TestX11UnboundToken(t *testing.T) {
	attackX(t, "refused, `unbound_token`", "review")
	x := withExchange(t)
	const broker = "system:serviceaccount:red-plain:broker" // which the values list
	x.allow("red-broker", broker, object{"apiGroups": []string{""}, "resources": []string{"serviceaccounts/token"}, "verbs": []string{"create"}})
	x.denied(x.request(x.as(broker), managed, "default", jobAudience, nil), "unbound_token")
}

func TestX13Impersonation(t *testing.T) {
	attackX(t, "**it is the victim's**", "RBAC on `impersonate`")
	x := withExchange(t)
	platform := x.root().with("Impersonate-User", bystander) // who may impersonate people
	made := platform.create(t, managed, "batch/v1/jobs", job()).accepted(t)
	x.acts(x.podOf(made), bystander)
	x.as(attacker).with("Impersonate-User", bystander).create(t, managed, "batch/v1/jobs", job()).refused(t, "cannot impersonate resource", "users")
}

func TestX14ActAsAnAccount(t *testing.T) {
	attackX(t, "refused, unless it is listed", byRequired)
	x := withExchange(t)
	posing := x.as(attacker).with("Impersonate-User", helper)
	posing.create(t, managed, "batch/v1/jobs", job()).refused(t, byRequired, helper+" may not submit work")
	posing.pod(t, managed).refused(t, byRequired, helper+" may not submit work")
}
