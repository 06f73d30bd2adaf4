//go:build unix

package redteam

import (
	"net/http"
	"strings"
	"testing"

	"github.com/lanyard-k8s/lanyard/mutate"
	"github.com/lanyard-k8s/lanyard/test/podtest"
)

// reservedNames are the five exact names and one of each prefix.
func reservedNames() []string {
	return []string{
		"NMP_PRINCIPAL", "NMP_ACCESS_TOKEN", "NEMO_WORKLOAD_TOKEN", "NEMO_WORKLOAD_TOKEN_FILE", "NMP_WORKLOAD_IDENTITY_TOKEN_FILE",
		"NMP_WORKLOAD_X", "NEMO_WORKLOAD_X", "NMP_WORKFLOW_X", "NEMO_WORKFLOW_",
	}
}

// sources are the ways to give a variable its value.
func sources() map[string]string {
	return map[string]string{
		"a literal":        `"value":"stolen"`,
		"another variable": `"value":"$(PATH)"`,
		"a space":          `"value":" "`,
		"a Secret":         `"valueFrom":{"secretKeyRef":{"name":"s","key":"k","optional":true}}`,
		"a ConfigMap":      `"valueFrom":{"configMapKeyRef":{"name":"c","key":"k"}}`,
		"a field":          `"valueFrom":{"fieldRef":{"fieldPath":"metadata.name"}}`,
		"a resource":       `"valueFrom":{"resourceFieldRef":{"resource":"limits.cpu"}}`,
	}
}

func TestA09ReservedVariableFromAnySource(t *testing.T) {
	t.Parallel()
	documented(t, "refused, `reserved_env`", "policy and webhook", "by name")
	mallory := redteam(t).as(attacker)
	for source, text := range sources() {
		t.Run(source, func(t *testing.T) {
			t.Parallel()
			var edits []podtest.Edit
			for _, name := range reservedNames() {
				edits = append(edits, podtest.EnvRaw(`{"name":"`+name+`",`+text+`}`))
			}
			a := mallory.pod(t, managed, mainWith(edits...))
			a.refused(t, byJob, "reserved_env", "spec.containers[0].env[0].name", "spec.containers[0].env[8].name", `"NEMO_WORKFLOW_"`)
			a.silent(t, "stolen")
			mallory.create(t, managed, "batch/v1/jobs", job(mainWith(edits...))).refused(t, byJob, "reserved_env", "spec.template.spec.containers[0].env[0].name")
			mallory.create(t, managed, "apps/v1/deployments", deployment(mainWith(edits...))).refused(t, byNames, "spec.template.spec.containers[main].env[NMP_PRINCIPAL]")
		})
	}
	// Sources that this API server does not know, or that nobody knows yet, reach the rules as they stand.
	for source, text := range map[string]string{
		"a file": `"valueFrom":{"fileKeyRef":{"volumeName":"v","path":"p","key":"k"}}`, "the future": `"valueFrom":{"future":{"x":1}}`,
		"a future beside a value": `"value":"","from":"x","valueFrom":{}`,
	} {
		t.Run(source, func(t *testing.T) {
			t.Parallel()
			refusedPure(t, rules(t, ""), pod(mainWith(podtest.EnvRaw(`{"name":"NMP_PRINCIPAL",`+text+`}`))), "reserved_env")
		})
	}
}

func TestA10ReservedVariableInAnotherList(t *testing.T) {
	t.Parallel()
	documented(t, "refused, `reserved_env`", "all lists of containers")
	w := redteam(t)
	mallory := w.as(attacker)
	bad := podtest.Env("NMP_PRINCIPAL", "root")
	mallory.pod(t, managed, mainWith(), podtest.In("initContainers", podtest.Container("setup", bad))).
		refused(t, byJob, "reserved_env", "spec.initContainers[0].env[0].name")
	mallory.pod(t, managed, mainWith(), podtest.In("initContainers", podtest.Container("side", bad, podtest.Sidecar()))).
		refused(t, byJob, "reserved_env", "spec.initContainers[0].env[0].name")
	mallory.pod(t, managed, podtest.Containers(podtest.Container("main"), podtest.Container("istio-proxy", bad))).
		refused(t, byJob, "reserved_env", "spec.containers[1].env[0].name")
	mallory.pod(t, managed, podtest.Label(roleKey, "none"), mainWith(bad)).refused(t, byJob, "reserved_env")
	mallory.pod(t, managed, podtest.Owner("apps/v1", "ReplicaSet"), mainWith(bad)).refused(t, byJob, "reserved_env")
	stored := mallory.pod(t, managed).name(t)
	w.root().debug(t, managed, stored, podtest.Container("debugger", bad)).refused(t, byNames, "spec.ephemeralContainers[debugger].env[NMP_PRINCIPAL]")
	// A container of this list in a new pod is the API server's own to refuse; ours does not wait for it.
	mallory.pod(t, managed, mainWith(), podtest.In("ephemeralContainers", podtest.Container("debugger", bad))).refused(t, byJob, "reserved_env")
}

func TestA11OursFirstAnotherAfter(t *testing.T) {
	t.Parallel()
	documented(t, "refused, `duplicate_env` or `reserved_env`", "once")
	mallory := redteam(t).as(attacker)
	ours := podtest.Env("NMP_WORKLOAD_IDENTITY_TOKEN_FILE", jobPath+"/token")
	for name, tc := range map[string]struct {
		edits  []podtest.Edit
		reason string
	}{
		"theirs after ours":          {[]podtest.Edit{ours, podtest.Env("NMP_WORKLOAD_IDENTITY_TOKEN_FILE", "/tmp/token")}, "reserved_env"},
		"an empty one after ours":    {[]podtest.Edit{ours, podtest.Env("NMP_WORKLOAD_IDENTITY_TOKEN_FILE", "")}, "reserved_env"},
		"ours twice":                 {[]podtest.Edit{ours, ours}, "duplicate_env"},
		"two empty ones":             {[]podtest.Edit{podtest.Env("NMP_PRINCIPAL", ""), podtest.Env("NMP_PRINCIPAL", "")}, "duplicate_env"},
		"a Secret after an empty":    {[]podtest.Edit{podtest.Env("NMP_PRINCIPAL", ""), podtest.EnvRaw(`{"name":"NMP_PRINCIPAL","valueFrom":{"secretKeyRef":{"name":"s","key":"k"}}}`)}, "reserved_env"},
		"an empty one alone of ours": {[]podtest.Edit{podtest.Env("NMP_WORKLOAD_IDENTITY_TOKEN_FILE", "")}, "reserved_env"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mallory.pod(t, managed, mainWith(tc.edits...)).refused(t, byJob, tc.reason, "spec.containers[0].env[")
			mallory.create(t, managed, "batch/v1/jobs", job(mainWith(tc.edits...))).refused(t, byJob, tc.reason, "spec.template.spec.containers[0].env[")
		})
	}
}

func TestA12EnvFrom(t *testing.T) {
	t.Parallel()
	documented(t, "key: neutralised by an empty entry; prefix: refused, `env_from_prefix`", "webhook demands the entries")
	w := redteam(t)
	mallory := w.as(attacker)
	for _, prefix := range []string{"N", "NMP_", "NMP_P", "NMP_PRINCIPA", "NMP_PRINCIPAL", "NEMO_WORKLOAD_TOKEN_", "NMP_WORKLOAD_X", "NMP_WORKFLOW_", "NEMO_W", "NMP_WORKLOAD_IDENTITY_TOKEN_FIL"} {
		t.Run("prefix "+prefix, func(t *testing.T) {
			t.Parallel()
			mallory.pod(t, managed, mainWith(podtest.EnvFrom(prefix))).refused(t, byJob, "env_from_prefix", "spec.containers[0].envFrom[0].prefix")
		})
	}
	for _, prefix := range []string{"", "A", "NMP_PRINCIPAL_", "NMP_Q", "nmp_", "NEMO_X"} {
		t.Run("neutralised "+prefix, func(t *testing.T) {
			t.Parallel()
			neutralised(t, mallory.pod(t, managed, mainWith(podtest.EnvFrom(prefix)), podtest.In("initContainers", podtest.Container("setup", podtest.EnvFrom(prefix)))).accepted(t))
		})
	}
	// A debug container is not changed by the webhook: its author must write the empty entries.
	stored := mallory.pod(t, managed).name(t)
	w.root().debug(t, managed, stored, podtest.Container("debugger", podtest.EnvFrom(""))).refused(t, byJobCheck, "env_from_open", "envFrom could set NMP_PRINCIPAL")
}

// neutralised fails the test unless each of the five names has an entry of its own, empty but for the token's file.
func neutralised(t *testing.T, stored object) {
	t.Helper()
	for _, name := range reservedNames()[:5] {
		want := ""
		if name == "NMP_WORKLOAD_IDENTITY_TOKEN_FILE" {
			want = jobPath + "/token"
		}
		if got, there := env(stored, 0, name); !there || got != want {
			t.Errorf("container main has %s=%q (%t), want %q", name, got, there, want)
		}
	}
	inits, _ := value(stored, "spec", "initContainers", 0, "env").([]any)
	for i, name := range reservedNames()[:5] {
		if i >= len(inits) || text(inits[i], "name") != name || text(inits[i], "value") != "" {
			t.Errorf("the init container's entries are %v, want five empty ones", inits)
			return
		}
	}
}

// TestA13ChangeTheConfigMapAfterwards shows that the change goes through and that the pod does not depend on it: an entry of
// its own stands for every exact name, and wins when the container starts.
func TestA13ChangeTheConfigMapAfterwards(t *testing.T) {
	t.Parallel()
	documented(t, "neutralised", "the empty entry wins")
	mallory := redteam(t).as(attacker)
	settings := mallory.create(t, managed, "configmaps", object{"metadata": object{"generateName": "settings-"}, "data": object{"HARMLESS": "1"}}).name(t)
	read := func(c object) {
		c["envFrom"] = []any{object{"configMapRef": object{"name": settings}}}
	}
	p := mallory.pod(t, managed, mainWith(read), podtest.In("initContainers", podtest.Container("setup", read)))
	neutralised(t, p.accepted(t))
	mallory.do(t.Context(), http.MethodPatch, at(managed, "configmaps")+"/"+settings, object{"data": object{"NMP_PRINCIPAL": "root", "NMP_WORKLOAD_IDENTITY_TOKEN_FILE": "/tmp/t"}}).accepted(t)
	neutralised(t, mallory.do(t.Context(), http.MethodGet, at(managed, "pods")+"/"+p.name(t), nil).accepted(t))
}

func TestA14LookAlikes(t *testing.T) {
	t.Parallel()
	documented(t, "warned; refused with `strictNames`", "webhook")
	mallory := redteam(t).as(attacker)
	ascii := []string{"nmp_principal", "NMP_PRINCIPAL ", " NMP_PRINCIPAL", "NMP-PRINCIPAL", "NMP.PRINCIPAL", "Nmp_Principal", "nmp_workload_x", "NEMO-WORKLOAD-TOKEN", "nemo.workflow.y"}
	for _, name := range ascii {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			edit := mainWith(podtest.Env(name, "root"))
			a := mallory.pod(t, managed, edit)
			if a.code == http.StatusUnprocessableEntity {
				return // this API server knows stricter names
			}
			a.accepted(t)
			a.warned(t, "only looks like a platform variable")
			refusedPure(t, rules(t, "admission: {strictNames: true}"), pod(edit), "look_alike")
		})
	}
	for name, alike := range map[string]string{
		"full width": "ＮＭＰ_PRINCIPAL", "zero width": "NMP_\u200bPRINCIPAL", "soft hyphen": "NMP_PRIN\u00adCIPAL",
		"no-break space": "NMP_PRINCIPAL\u00a0", "variation selector": "NMP_PRINCIPAL\ufe0f", "an equals sign": "NMP_PRINCIPAL=x",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			edit := mainWith(podtest.Env(alike, "root"))
			a := mallory.pod(t, managed, edit)
			if a.code != http.StatusUnprocessableEntity || !strings.Contains(a.message, "env[0].name") {
				t.Errorf("answered with %d (%s), want the API server's own refusal of the name", a.code, a.message)
			}
			refusedPure(t, rules(t, "admission: {strictNames: true}"), pod(edit), "look_alike")
		})
	}
	// Windows does not tell small letters from capitals.
	windows := pod(mainWith(podtest.Env("nmp_principal", "root")), podtest.Label(roleKey, "none"), podtest.Spec("os", object{"name": "windows"}))
	refusedPure(t, rules(t, ""), windows, "look_alike")
}

// refusedPure asks the webhook's rules about a pod of a managed namespace without a server.
func refusedPure(t *testing.T, r mutate.Rules, p object, reason string) {
	t.Helper()
	for name, decide := range map[string]func(mutate.Request, mutate.Rules) (mutate.Decision, error){"mutating": mutate.Pod, "validating": mutate.Verify} {
		d, err := decide(mutate.Request{
			Entry: mutate.EntryJob, Operation: mutate.Create, Kind: mutate.GroupKind{Kind: "Pod"}, Namespace: managed, Username: attacker, Object: p.JSON(),
		}, r)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		found := false
		for _, v := range d.Violations {
			found = found || string(v.Reason) == reason
		}
		if d.Outcome != mutate.Denied || !found {
			t.Errorf("%s: decided %s with %v, want denied with %s", name, d.Outcome, d.Violations, reason)
		}
	}
}
