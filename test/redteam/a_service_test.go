//go:build unix

package redteam

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lanyard-k8s/lanyard/mutate/manifest"
	"github.com/lanyard-k8s/lanyard/test/podtest"
)

// TestA32StopTheWebhook has the webhook accept connections and answer nothing, which is the worst that a flood can do; what
// the process does under a flood is TestFlood.
func TestA32StopTheWebhook(t *testing.T) {
	documented(t, "429 before reading, 7 MiB cap, budgets for calls and bytes, 50,000 elements and 100,000 keys an object, whose text is 3 MiB at most; connections bounded in all and for each address; unlabelled namespaces unaffected", "webhook")
	w := redteam(t)
	if err := w.in.Webhook().Pause(); err != nil {
		t.Fatal(err)
	}
	resumed := false
	resume := func() {
		if err := w.in.Webhook().Resume(); err != nil && !resumed {
			t.Error(err)
		}
		resumed = true
	}
	t.Cleanup(resume)
	mallory := w.as(attacker)
	begin := time.Now()
	mallory.pod(t, plain, mainWith(podtest.Env("NMP_PRINCIPAL", "x"))).accepted(t)
	mallory.pod(t, publishing).accepted(t)
	mallory.pod(t, listed).accepted(t)
	if took := time.Since(begin); took > 5*time.Second {
		t.Errorf("pods that ours has nothing to add to took %s without it", took)
	}
	a := mallory.pod(t, publishing, asPublisher())
	if a.code != http.StatusInternalServerError || !strings.Contains(a.message, `failed calling webhook "publisher.mutate.lanyard.dev"`) {
		t.Errorf("a publisher's pod is answered with %d: %s", a.code, a.message)
	}
	// What policies guard is guarded all the same.
	mallory.pod(t, plain, projecting("x", tokenSource(jobAudience))).refused(t, byAudience, "only pods of managed jobs")
	resume()
	mallory.pod(t, publishing, asPublisher()).accepted(t)
}

// TestA33CallTheWebhookDirectly forges a review for another user: the answer is a patch and nothing comes of it.
func TestA33CallTheWebhookDirectly(t *testing.T) {
	t.Parallel()
	documented(t, "learns which patch would be written", "nothing secret is returned")
	d := desk(t, redteam(t).in.Webhook().URL())
	code, body := d.post(t, "/mutate/job", podtest.Review(pod().JSON()))
	if code != http.StatusOK || !allowed(t, body) {
		t.Fatalf("answered with %d: %s", code, body)
	}
	for _, op := range patchOf(t, body) {
		if op.Op != "add" || !(strings.HasPrefix(op.Path, "/spec/") || strings.HasPrefix(op.Path, "/metadata/")) {
			t.Errorf("the patch has %s at %s", op.Op, op.Path)
		}
		if strings.Contains(string(op.Value), "eyJ") || strings.Contains(string(op.Value), "PRIVATE") {
			t.Errorf("at %s the patch holds what looks like a token or a key", op.Path)
		}
	}
	if got := redteam(t).root().do(t.Context(), http.MethodGet, at("team", "pods"), nil); strings.Contains(string(got.body), "trainer-") {
		t.Error("a forged review has made a pod")
	}
}

// TestA34RemoveTheWebhooks takes away what only cluster rights can take away, and shows what is left.
func TestA34RemoveTheWebhooks(t *testing.T) {
	documented(t, "without the webhook, pods entitled to identity get none and stamps are missed, and that is refused", "RBAC")
	w := redteam(t)
	mallory := w.as(attacker)
	const admission = "/apis/admissionregistration.k8s.io/v1/"
	for _, resource := range []string{"mutatingwebhookconfigurations/lanyard", "validatingwebhookconfigurations/lanyard", "validatingadmissionpolicies/lanyard-creator-stamp", "validatingadmissionpolicybindings/lanyard-creator-stamp"} {
		mallory.do(t.Context(), http.MethodDelete, admission+resource, nil).refused(t, "cannot delete resource", "admissionregistration")
		mallory.do(t.Context(), http.MethodPatch, admission+resource, object{"webhooks": nil}).refused(t, "cannot patch resource", "admissionregistration")
	}
	t.Cleanup(func() {
		if err := w.in.ApplyWebhooks(context.Background()); err != nil {
			t.Error(err)
		}
	})
	// The mutating half alone: the other half says what is missing.
	w.root().do(t.Context(), http.MethodDelete, mutating+"/lanyard", nil).accepted(t)
	eventually(t, "pods are refused as not injected", func(ctx context.Context) (bool, error) {
		return mallory.do(ctx, http.MethodPost, at(publishing, "pods"), pod(asPublisher())).code == http.StatusForbidden, nil
	})
	mallory.pod(t, publishing, asPublisher()).refused(t, byPubCheck, "not_injected", "lanyard's webhook did not answer")
	mallory.pod(t, listed, account("monitor")).refused(t, "webhook listed.validate.lanyard.dev", "not_injected")
	mallory.pod(t, managed).refused(t, byRequired, "was not stamped with its creator", "tell the platform team")
	mallory.create(t, managed, "batch/v1/jobs", job()).refused(t, byRequired, "was not stamped with its creator")
	// Whoever writes the stamp by hand can only write the own name, and gets no further.
	mallory.pod(t, managed, podtest.Annotation(stampKey, bystander)).refused(t, byStamp, "names somebody else")
	mallory.pod(t, managed, podtest.Annotation(stampKey, attacker)).refused(t, byJobCheck, "not_injected")
	// Both halves: the policies still hold.
	if err := w.in.RemoveWebhooks(t.Context()); err != nil {
		t.Fatal(err)
	}
	stamped := podtest.Annotation(stampKey, attacker)
	mallory.pod(t, managed, stamped, mainWith(podtest.Env("NMP_PRINCIPAL", "root"))).refused(t, byNames, "spec.containers[main].env[NMP_PRINCIPAL]")
	mallory.pod(t, plain, projecting("x", tokenSource(publisherAudience))).refused(t, byAudience, "red-plain/default")
	if got := holders(mallory.pod(t, publishing, asPublisher()).accepted(t), publisherVolume); len(got) > 0 {
		t.Errorf("without webhooks the containers with the token are %q", got)
	}
}

func TestA35UnknownKindsTemplate(t *testing.T) {
	t.Parallel()
	documented(t, "the template passes, its pods are refused", "pods are where it counts")
	w := redteam(t)
	w.define(t, "things", "Thing")
	w.define(t, "trainings", "Training")
	mallory := w.as(attacker)
	bad := pod(mainWith(podtest.Env("NMP_PRINCIPAL", "root")))
	thing := func(kind string) object {
		return object{"apiVersion": "red.example.com/v1", "kind": kind, "metadata": object{"generateName": "x-"}, "spec": object{
			"replicas": []any{object{"template": object{"metadata": object{}, "spec": bad["spec"]}}},
		}}
	}
	w.root().create(t, managed, "red.example.com/v1/things", thing("Thing")).accepted(t)
	w.root().create(t, managed, "red.example.com/v1/trainings", thing("Training")).
		refused(t, byTemplate, "reserved_env", "spec.replicas[0].template.spec.containers[0].env[0].name")
	mallory.create(t, managed, "pods", bad).refused(t, byJob, "reserved_env")
	// So are those of kinds that are built in and not looked at.
	controller := object{"apiVersion": "v1", "kind": "ReplicationController", "metadata": object{"generateName": "rc-"}, "spec": object{
		"replicas": 0, "selector": object{"red-controller": "x"},
		"template": object{"metadata": object{"labels": object{"red-controller": "x"}}, "spec": pod(mainWith(podtest.Env("NMP_PRINCIPAL", "root")), podtest.Spec("restartPolicy", "Always"))["spec"]},
	}}
	mallory.create(t, managed, "replicationcontrollers", controller).accepted(t)
	mallory.create(t, managed, "pods", pod(mainWith(podtest.Env("NMP_PRINCIPAL", "root")), podtest.Owner("v1", "ReplicationController"))).refused(t, byJob, "reserved_env")
}

// define makes a resource whose objects hold anything, once.
func (w *world) define(t *testing.T, plural, kind string) {
	t.Helper()
	const group = "red.example.com"
	w.root().do(t.Context(), http.MethodPost, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", object{
		"metadata": object{"name": plural + "." + group},
		"spec": object{
			"group": group, "scope": "Namespaced", "names": object{"plural": plural, "singular": strings.ToLower(kind), "kind": kind, "listKind": kind + "List"},
			"versions": []any{object{"name": "v1", "served": true, "storage": true, "schema": object{"openAPIV3Schema": object{
				"type": "object", "properties": object{"spec": object{"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
			}}}},
		},
	})
	eventually(t, plural+" are served", func(ctx context.Context) (bool, error) {
		return w.root().do(ctx, http.MethodGet, at(managed, group+"/v1/"+plural), nil).code == http.StatusOK, nil
	})
}

func TestA36JSONTricks(t *testing.T) {
	t.Parallel()
	documented(t, "duplicate: malformed, 400; other case: another key, as for the API server", "strict reader")
	w := redteam(t)
	mallory := w.as(attacker)
	const head = `{"apiVersion":"v1","kind":"Pod","metadata":{"generateName":"x-"},"spec":{"automountServiceAccountToken":false,"containers":[{"name":"main","image":"x:1",`
	for name, tc := range map[string]struct{ body, value string }{
		// The API server keeps the last of two keys and drops keys of another case before it asks anybody.
		"the bad list hides behind a good one": {head + `"env":[{"name":"NMP_PRINCIPAL","value":"root"}],"env":[{"name":"SAFE","value":"1"}]}]}}`, ""},
		"the bad list has a capital":           {head + `"Env":[{"name":"NMP_PRINCIPAL","value":"root"}],"env":[{"name":"SAFE","value":"1"}]}]}}`, ""},
		"the bad name has a capital":           {head + `"env":[{"name":"SAFE","Name":"NMP_PRINCIPAL","value":"1"}]}]}}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stored := mallory.send(t.Context(), http.MethodPost, at(managed, "pods"), "application/json", []byte(tc.body)).accepted(t)
			if got, _ := env(stored, 0, "NMP_PRINCIPAL"); got != tc.value {
				t.Errorf("NMP_PRINCIPAL is %q", got)
			}
		})
	}
	mallory.send(t.Context(), http.MethodPost, at(managed, "pods"), "application/json",
		[]byte(head+`"env":[{"name":"SAFE","value":"1"}],"env":[{"name":"NMP_PRINCIPAL","value":"root"}]}]}}`)).refused(t, byJob, "reserved_env")
	mallory.send(t.Context(), http.MethodPost, at(managed, "pods"), "application/json",
		[]byte(head+`"env":[{"name":"\u004eMP_PRINCIPAL","value":"root"}]}]}}`)).refused(t, byJob, "reserved_env")
	// A custom object keeps both keys, and the rules see the one that a controller reads.
	w.define(t, "trainings", "Training")
	template := func(first, second string) []byte {
		return []byte(`{"apiVersion":"red.example.com/v1","kind":"Training","metadata":{"generateName":"x-"},"spec":{"template":{"spec":{"containers":[{"name":"main",` +
			`"` + first + `":[{"name":"NMP_PRINCIPAL","value":"root"}],"` + second + `":[{"name":"SAFE","value":"1"}]}]}}}}`)
	}
	path := at(managed, "red.example.com/v1/trainings")
	w.root().send(t.Context(), http.MethodPost, path, "application/json", template("env", "Env")).refused(t, byTemplate, "reserved_env")
	w.root().send(t.Context(), http.MethodPost, path, "application/json", template("env", "ENV")).refused(t, byTemplate, "reserved_env")
	w.root().send(t.Context(), http.MethodPost, path, "application/json", template("Env", "env")).accepted(t)
	// Straight to the readers, with no API server in front.
	for _, raw := range []string{`{"spec":{"containers":[{"name":"a","env":[],"env":[]}]}}`, `{"spec":{},"spec":{}}`, `{"metadata":{"labels":{"a":"b","a":"c"}}}`, `{"metadata":{"annotations":{"x":"1","\u0078":"2"}}}`} {
		if _, err := manifest.Decode([]byte(raw)); err == nil {
			t.Errorf("a repeated key was read: %s", raw)
		}
	}
}

// TestA37MadeBeforeTheRule makes what is forbidden while no rule is there, and starts it later.
func TestA37MadeBeforeTheRule(t *testing.T) {
	documented(t, "**not judged again**; pods made later are", "documented")
	w := redteam(t)
	mallory := w.as(attacker)
	ctx := context.Background()
	restore := func() {
		if err := w.in.ApplyPolicies(ctx); err != nil {
			t.Error(err)
		}
		if err := w.in.ApplyWebhooks(ctx); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(restore)
	if err := w.in.RemoveWebhooks(ctx); err != nil {
		t.Fatal(err)
	}
	if err := w.in.RemovePolicies(ctx); err != nil {
		t.Fatal(err)
	}
	bad := []podtest.Edit{mainWith(podtest.Env("NMP_PRINCIPAL", "root"))}
	gated := mallory.pod(t, managed, append(bad, podtest.Spec("schedulingGates", []any{object{"name": "red.example.com/wait"}}))...)
	gated.accepted(t)
	suspended := job(bad...)
	suspended.At("spec")["suspend"] = true
	old := mallory.create(t, managed, "batch/v1/jobs", suspended)
	old.accepted(t)
	restore()
	path := at(managed, "pods") + "/" + gated.name(t)
	stored := mallory.do(t.Context(), http.MethodPatch, path, object{"spec": object{"schedulingGates": nil}}).accepted(t)
	if got, _ := env(stored, 0, "NMP_PRINCIPAL"); got != "root" || len(holders(stored, jobVolume)) > 0 {
		t.Errorf("the old pod was changed: %v", stored)
	}
	mallory.do(t.Context(), http.MethodPatch, at(managed, "batch/v1/jobs")+"/"+old.name(t), object{"spec": object{"suspend": false}}).accepted(t)
	eventually(t, "the old Job's pod is refused", func(ctx context.Context) (bool, error) {
		events := w.root().do(ctx, http.MethodGet, at(managed, "events")+"?fieldSelector=involvedObject.name%3D"+old.name(t), nil)
		return strings.Contains(string(events.body), "job.mutate.lanyard.dev") && strings.Contains(string(events.body), "NMP_PRINCIPAL"), nil
	})
	// Nor can its old sin be used to add another.
	mallory.do(t.Context(), http.MethodDelete, path, nil).accepted(t)
}

func TestA38ChangeTheImage(t *testing.T) {
	t.Parallel()
	documented(t, "refused", "`lanyard-managed-pods`")
	mallory := redteam(t).as(attacker)
	made := mallory.pod(t, managed)
	if got := holders(made.accepted(t), jobVolume); !slices.Equal(got, []string{"main"}) {
		t.Errorf("the containers with the token are %q", got)
	}
	mallory.send(t.Context(), http.MethodPatch, at(managed, "pods")+"/"+made.name(t), "application/json-patch+json",
		[]byte(`[{"op":"replace","path":"/spec/containers/0/image","value":"registry.example/hostile:1"}]`)).
		refused(t, byImage, "images of a pod in a managed namespace never change")
	// Everything that carries the token is immutable anyway.
	for path, val := range map[string]string{
		"/spec/volumes": `[]`, "/spec/containers/0/volumeMounts": `[]`, "/spec/containers/0/env": `[]`, "/spec/serviceAccountName": `"other"`,
	} {
		a := mallory.send(t.Context(), http.MethodPatch, at(managed, "pods")+"/"+made.name(t), "application/json-patch+json",
			[]byte(`[{"op":"replace","path":"`+path+`","value":`+val+`}]`))
		if a.code != http.StatusUnprocessableEntity {
			t.Errorf("replacing %s is answered with %d: %s", path, a.code, a.message)
		}
	}
}

func TestA39HostNamespaces(t *testing.T) {
	t.Parallel()
	documented(t, "not Lanyard's", "Pod Security")
	mallory := redteam(t).as(attacker)
	for _, field := range []string{"hostNetwork", "hostPID", "hostIPC"} {
		if got := holders(mallory.pod(t, managed, podtest.Spec(field, true)).accepted(t), jobVolume); !slices.Equal(got, []string{"main"}) {
			t.Errorf("%s: the containers with the token are %q", field, got)
		}
		mallory.pod(t, baseline, podtest.Spec(field, true)).refused(t, `violates PodSecurity "baseline`, "host namespaces")
	}
}

func TestA40AskForYears(t *testing.T) {
	t.Parallel()
	documented(t, "clamped to the role's maximum, with a warning", "webhook compares")
	mallory := redteam(t).as(attacker)
	const key = "lanyard.dev/token-expiration-seconds"
	for wanted, got := range map[string]float64{
		"4294967296": 3600, "4294967297": 3600, "99999999999999999999999999": 3600, "3601": 3600, "0": 600, "599": 600, "0000900": 900, "3600": 3600,
	} {
		a := mallory.pod(t, managed, podtest.Annotation(key, wanted))
		if stored := value(a.accepted(t), "spec", "volumes", 0, "projected", "sources", 0, "serviceAccountToken", "expirationSeconds"); stored != got {
			t.Errorf("%s: the token lives %v s, want %v", wanted, stored, got)
		}
		if wanted != "0000900" && wanted != "3600" {
			a.warned(t, "is out of range; the token lives")
		}
	}
	for _, wrong := range []string{"600.5", "1e3", "-600", "+600", " 600", "", "0x600", "６００", "600s"} {
		mallory.pod(t, managed, podtest.Annotation(key, wrong)).refused(t, byJob, "metadata_invalid", "metadata.annotations["+key+"]")
	}
	mallory.pod(t, publishing, asPublisher(), podtest.Annotation(key, "4294967296")).warned(t, "86400")
	mallory.pod(t, managed, podtest.Volume(`{"name":"nmp-workload-identity","projected":{"sources":[{"serviceAccountToken":{"audience":"nemo-platform","expirationSeconds":4294967296,"path":"token"}}]}}`)).
		refused(t, byJob, "volume_conflict")
}
