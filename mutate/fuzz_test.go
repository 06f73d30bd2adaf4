package mutate_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/mutate"
	"github.com/lanyard-k8s/lanyard/test/podtest"
)

// marker stands in every value that the generated pods hold; nothing that leaves the room may contain it.
const marker = "marked-secret"

// dice deals choices from fuzzed bytes; when they run out, everything is the first choice.
type dice struct{ left []byte }

func (d *dice) roll(sides int) int {
	if len(d.left) == 0 {
		return 0
	}
	n := int(d.left[0]) % sides
	d.left = d.left[1:]
	return n
}

func pick[T any](d *dice, from ...T) T { return from[d.roll(len(from))] }

// pod builds a pod out of parts that rules care about and parts that they must leave alone.
func (d *dice) pod() podtest.Object {
	var edits []podtest.Edit
	add := func(e ...podtest.Edit) { edits = append(edits, e...) }
	add(pick(d, podtest.Label("app", "x"), podtest.Owner("batch/v1", "Job"), podtest.Owner("apps/v1", "ReplicaSet"), podtest.Label(wire.LabelRole, "publisher"), podtest.Label(wire.LabelRole, "none")))
	add(pick(d, podtest.Annotation("a", marker), podtest.Annotation(wire.AnnotationContainers, "c0"), podtest.Annotation(wire.AnnotationExpiration, "900"), podtest.Annotation(wire.AnnotationJobContainers, "c0"), podtest.Label(wire.LabelRole, "publisher")))
	add(pick(d, podtest.Spec("futurePodField", []any{1, nil, marker}), podtest.Spec("volumes", nil), podtest.Spec("volumes", []any{}), podtest.Volume(foreignVolume), podtest.Volume(jobVolume), podtest.Volume(publisherVolume)))
	add(podtest.Spec("serviceAccountName", pick(d, "default", "gpu-monitor", "csp-monitor")))
	for i := range d.roll(4) + 1 {
		add(podtest.In("containers", d.container(fmt.Sprintf("c%d", i))))
	}
	for i := range d.roll(3) {
		add(podtest.In("initContainers", d.container(fmt.Sprintf("i%d", i))))
	}
	if d.roll(3) == 2 {
		add(podtest.In("containers", d.container("istio-proxy")))
	}
	p := podtest.Pod(edits...)
	switch d.roll(5) {
	case 1:
		p["metadata"] = nil
	case 2:
		p.At("metadata")["annotations"] = nil
	case 3:
		p.At("metadata")["labels"] = podtest.Object{}
	}
	return p
}

func (d *dice) container(name string) podtest.Object {
	c := podtest.Container(name, podtest.Field("futureContainerField", podtest.Object{"x": []any{marker}}))
	for range d.roll(6) {
		pick(d,
			podtest.Env("A", marker), podtest.EnvRaw(`{"name":"F","valueFrom":{"fileKeyRef":{"key":"`+marker+`"}},"future":1}`), podtest.EnvFrom(""), podtest.EnvFrom("APP_"),
			podtest.Env("NMP_PRINCIPAL", ""), podtest.Env(wire.EnvBaseURL, "https://"+marker), podtest.Env("nmp_principal", marker), podtest.Env(wire.EnvSubjectTokenFile, jobFile),
			podtest.Mount("mine", "/var/run", false), podtest.Mount("mine", "/data", true), podtest.Mount(wire.VolumeJob, wire.DefaultJobMountPath, true),
			podtest.Mount(wire.VolumePublisher, wire.DefaultPublisherMountPath, true), podtest.Sidecar(), podtest.Field("env", nil), podtest.Field("volumeMounts", []any{}),
			podtest.Field("restartPolicyRules", []any{podtest.Object{"action": "Restart"}}), podtest.Env(wire.EnvPublisherTokenPath, wire.DefaultPublisherMountPath+"/token"),
			podtest.Env("NMP_PRINCIPAL", marker), podtest.Mount("mine", jobFile, false),
		)(c)
	}
	return c
}

// plants are faults that no pod of a managed namespace gets past, wherever they are put.
func plants() []func(d *dice, p podtest.Object) {
	some := func(d *dice, p podtest.Object) podtest.Object {
		cs := p.At("spec")["containers"].([]any)
		return cs[d.roll(len(cs))].(podtest.Object)
	}
	debug := func(e ...podtest.Edit) func(*dice, podtest.Object) {
		return func(_ *dice, p podtest.Object) {
			podtest.In("ephemeralContainers", podtest.Container("debug", e...))(p)
		}
	}
	in := func(e podtest.Edit) func(*dice, podtest.Object) {
		return func(d *dice, p podtest.Object) { e(some(d, p)) }
	}
	return []func(d *dice, p podtest.Object){
		in(podtest.Env("NMP_PRINCIPAL", marker)), in(podtest.Env("NEMO_WORKFLOW_X", "$("+marker+")")), in(podtest.Env(wire.EnvSubjectTokenFile, "/"+marker)),
		in(podtest.EnvRaw(`{"name":"NMP_ACCESS_TOKEN","valueFrom":{"future":{"x":"` + marker + `"}}}`)), in(podtest.EnvFrom("NMP_")), in(podtest.EnvFrom("N")),
		in(podtest.Mount("mine", "/run/secrets/nemo-platform", true)), in(podtest.Mount("mine", jobFile+"/x", true)), in(podtest.Mount("mine", "/var/run/../var/run/secrets/nemo-platform/ca/ca.crt", true)),
		in(podtest.Mount(wire.VolumeJob, "/leak", true)), in(podtest.Mount(wire.VolumeJob, wire.DefaultJobMountPath, false)), in(podtest.Mount(wire.VolumeCA, "/leak", true)),
		debug(podtest.Mount(wire.VolumeJob, wire.DefaultJobMountPath, true)), debug(podtest.Env(wire.EnvSubjectTokenFile, jobFile)), debug(podtest.Env("NMP_WORKLOAD_X", marker)), debug(podtest.Mount("mine", jobFile, true)),
		func(_ *dice, p podtest.Object) {
			podtest.Volume(`{"name":"mine2","projected":{"sources":[{},{"serviceAccountToken":{"audience":"nemo-platform","path":"p"}}]}}`)(p)
		},
		func(_ *dice, p podtest.Object) { podtest.Volume(`{"name":"nmp-platform-ca","emptyDir":{}}`)(p) },
		func(_ *dice, p podtest.Object) {
			podtest.Volume(`{"name":"nmp-workload-identity","hostPath":{"path":"/"}}`)(p)
		},
	}
}

func FuzzPod(f *testing.F) {
	f.Add([]byte{}, uint8(0), uint8(0))
	for i := range plants() {
		f.Add([]byte{1, 2, 3, 1, 2, 5, 0, 2, 8, 9, 11, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, byte(i)}, uint8(i), uint8(i))
		f.Add([]byte{byte(i), 1, 0, 2, 3, 3, 2, 1, 0, 5, 4, 3, 2, 1, 17, 16, 15, 14, 13, 12, 11, byte(i)}, uint8(3), uint8(i))
	}
	f.Fuzz(func(t *testing.T, bytes []byte, entry, plant uint8) {
		d := &dice{bytes}
		pod := d.pod()
		req := jobRequest(pod.JSON())
		req.Entry = []mutate.Entry{mutate.EntryJob, mutate.EntryPublisher, mutate.EntryListed}[entry%3]
		req.Namespace = "monitoring"
		patched := holds(t, req, testRules())
		for _, words := range []string{"audit", "strictNames protectEndpoints publisherCA"} {
			holds(t, req, rulesFrom(t, words))
		}
		if patched == nil || req.Entry != mutate.EntryJob {
			return
		}
		// A fault in a pod that would otherwise pass is refused by both entries, before and after the injection.
		plants()[int(plant)%len(plants())](d, pod)
		req.Object = pod.JSON()
		refused(t, req, mutate.Pod)
		var injected podtest.Object
		if err := json.Unmarshal(patched, &injected); err != nil {
			t.Fatal(err)
		}
		replant(d, plant, injected)
		req.Object = injected.JSON()
		refused(t, req, mutate.Verify)
	})
}

// replant puts a fault into a pod that came from JSON.
func replant(d *dice, plant uint8, p podtest.Object) {
	typed(p)
	plants()[int(plant)%len(plants())](d, p)
}

// typed gives decoded maps the type that edits expect.
func typed(v any) any {
	switch v := v.(type) {
	case map[string]any:
		return typed(podtest.Object(v))
	case podtest.Object:
		for k, m := range v {
			v[k] = typed(m)
		}
		return v
	case []any:
		for i := range v {
			v[i] = typed(v[i])
		}
		return v
	default:
		return v
	}
}

func refused(t *testing.T, req mutate.Request, call func(mutate.Request, mutate.Rules) (mutate.Decision, error)) {
	t.Helper()
	d, err := call(req, testRules())
	if err != nil {
		t.Fatal(err)
	}
	if d.Outcome != mutate.Denied || len(d.Violations) == 0 || d.Patch != nil {
		t.Errorf("a planted fault came through as %q in %s", d.Outcome, req.Object)
	}
	silent(t, d)
}

// holds checks what is true of every pod, and returns the patched pod when nothing refused it.
func holds(t *testing.T, req mutate.Request, rules mutate.Rules) []byte {
	t.Helper()
	d, err := mutate.Pod(req, rules)
	if err != nil {
		t.Fatalf("%v in %s", err, req.Object)
	}
	silent(t, d)
	if d.Outcome == mutate.Denied {
		if len(d.Patch) > 0 {
			t.Error("a refusal carries a patch")
		}
		return nil
	}
	patched := apply(t, req.Object, d.Patch)
	if where := lost(decoded(t, req.Object), decoded(t, patched), "", d.Patch); where != "" {
		t.Errorf("the patch changed %s of %s", where, req.Object)
	}
	req.Object = patched
	again, err := mutate.Pod(req, rules)
	if err != nil || len(again.Patch) > 0 {
		t.Errorf("a second run patches again: %v %v in %s", again.Patch, err, patched)
	}
	v, err := mutate.Verify(req, rules)
	if err != nil {
		t.Fatal(err)
	}
	silent(t, v)
	if !v.Outcome.Allows() || (rules.Mode == mutate.Enforce && len(v.Violations) > 0) {
		t.Errorf("the validating entry refuses what the mutating one let through: %v in %s", v.Violations, patched)
	}
	return patched
}

// silent checks that no value of the pod got into anything that people, logs or metrics see.
func silent(t *testing.T, d mutate.Decision) {
	t.Helper()
	text, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), marker) {
		t.Errorf("a value got into the decision: %s", text)
	}
	if len(d.Warnings) > mutate.MaxWarnings {
		t.Errorf("%d warnings", len(d.Warnings))
	}
	for _, w := range d.Warnings {
		if n := len([]rune(w)); n > mutate.MaxWarningLength {
			t.Errorf("a warning has %d characters: %s", n, w)
		}
	}
}

// lost returns where the patched value is not the original with additions: every member and every element still in its
// place, but for parents that said nothing and the two values that only the platform writes.
func lost(was, is any, at string, ops []mutate.Op) string {
	switch was := was.(type) {
	case map[string]any:
		now, ok := is.(map[string]any)
		if !ok {
			return at
		}
		for k, v := range was {
			member, there := now[k]
			if !there {
				return at + "/" + k
			}
			if k == wire.AnnotationCreatedBy || k == wire.LabelInjected {
				continue
			}
			if where := lost(v, member, at+"/"+k, ops); where != "" {
				return where
			}
		}
		return ""
	case []any:
		now, ok := is.([]any)
		if !ok || len(now) < len(was) {
			return at
		}
		for i := range was {
			if where := lost(was[i], now[i], fmt.Sprintf("%s/%d", at, i), ops); where != "" {
				return where
			}
		}
		return ""
	case nil:
		for _, op := range ops { // a null that became a parent
			if op.Path == at {
				return ""
			}
		}
	}
	if !reflect.DeepEqual(was, is) {
		return at
	}
	return ""
}

func decoded(t testing.TB, text []byte) any {
	t.Helper()
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// FuzzBytes feeds arbitrary text to every entry: an answer or an error, never a panic, and a patch that fits.
func FuzzBytes(f *testing.F) {
	f.Add([]byte(`{"spec":{"containers":[{"name":"c"}]}}`), []byte(`{}`))
	f.Add([]byte(`{"metadata":{"annotations":{"lanyard.dev/containers":",","lanyard.dev/job-containers":""},"labels":{"lanyard.dev/injected":"publisher"}},"spec":{"containers":[]}}`), []byte(`null`))
	f.Add(podtest.Small(), podtest.Small())
	f.Add([]byte(`{"spec":null,"metadata":{}}`), []byte(`{"spec":{"template":{"spec":{"containers":[{"env":[{"name":"NMP_PRINCIPAL"}]}]}}}}`))
	f.Fuzz(func(t *testing.T, object, old []byte) {
		for _, entry := range []mutate.Entry{mutate.EntryJob, mutate.EntryPublisher, mutate.EntryListed, mutate.EntryTemplate, ""} {
			for _, op := range []mutate.Operation{mutate.Create, mutate.Update} {
				req := jobRequest(object)
				req.Entry, req.Operation, req.OldObject = entry, op, old
				req.Kind = mutate.GroupKind{Group: "batch", Kind: "Job"}
				if d, err := mutate.Pod(req, testRules()); err == nil && d.Outcome.Allows() {
					apply(t, object, d.Patch)
				}
				if d, err := mutate.Stamp(req, testRules()); err == nil {
					apply(t, object, d.Patch)
				}
				for _, call := range []func(mutate.Request, mutate.Rules) (mutate.Decision, error){mutate.Verify, mutate.Template} {
					if d, err := call(req, testRules()); err == nil && (d.Outcome == "" || d.Patch != nil) {
						t.Errorf("a validating entry decided %q with %d operations", d.Outcome, len(d.Patch))
					}
				}
			}
		}
	})
}
