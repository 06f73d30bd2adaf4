package policy

import (
	"fmt"
	"strings"
	"testing"
)

const ours = "/var/run/secrets/nemo-platform/workload/token"

// podWith is a pod in a managed namespace whose only container has the entries.
func podWith(env string) string {
	return "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: main, env: [" + env + "]}]}}"
}

func TestReservedNames(t *testing.T) {
	t.Parallel()
	v := named(t, defaults(), ReservedNames)
	mirrored := "{apiVersion: v1, kind: Pod, metadata: {annotations: {kubernetes.io/config.mirror: x}}, spec: {containers: [{name: c, env: [{name: NMP_PRINCIPAL, value: x}]}]}}"
	for name, tc := range map[string]struct {
		q    question
		want string // in the message; empty: let through
	}{
		"ordinary names pass":              {q: question{object: podWith("{name: PATH, value: x}, {name: NMP_BASE_URL, value: x}")}},
		"no env at all":                    {q: question{object: "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: c}]}}"}},
		"a look-alike is another's affair": {q: question{object: podWith("{name: nmp_principal, value: x}")}},
		"an exact name":                    {q: question{object: podWith("{name: NMP_PRINCIPAL, value: x}")}, want: "spec.containers[main].env[NMP_PRINCIPAL]: set by the platform"},
		"any source counts":                {q: question{object: podWith("{name: NMP_ACCESS_TOKEN, valueFrom: {future: {}}}")}, want: "env[NMP_ACCESS_TOKEN]"},
		"an empty source counts":           {q: question{object: podWith("{name: NMP_ACCESS_TOKEN, valueFrom: {}}")}, want: "env[NMP_ACCESS_TOKEN]"},
		"a prefix":                         {q: question{object: podWith("{name: NEMO_WORKFLOW_ID, value: x}")}, want: "env[NEMO_WORKFLOW_ID]"},
		"a tombstone, absent and empty":    {q: question{object: podWith("{name: NMP_PRINCIPAL, value: ''}, {name: NMP_WORKFLOW_X}")}},
		"a tombstone twice":                {q: question{object: podWith("{name: NMP_PRINCIPAL}, {name: NMP_PRINCIPAL}")}, want: "env[NMP_PRINCIPAL]"},
		"exactly ours":                     {q: question{object: podWith("{name: NMP_WORKLOAD_IDENTITY_TOKEN_FILE, value: " + ours + "}")}},
		"ours, then theirs":                {q: question{object: podWith("{name: NMP_WORKLOAD_IDENTITY_TOKEN_FILE, value: " + ours + "}, {name: NMP_WORKLOAD_IDENTITY_TOKEN_FILE, value: x}")}, want: "TOKEN_FILE"},
		"our value under another name":     {q: question{object: podWith("{name: NEMO_WORKLOAD_TOKEN_FILE, value: " + ours + "}")}, want: "NEMO_WORKLOAD_TOKEN_FILE"},
		"our name with an expansion":       {q: question{object: podWith("{name: NMP_WORKLOAD_IDENTITY_TOKEN_FILE, value: $(P)}")}, want: "TOKEN_FILE"},
		"in an init container": {
			q:    question{object: "{apiVersion: v1, kind: Pod, spec: {containers: [{name: c}], initContainers: [{name: i, env: [{name: NMP_PRINCIPAL, value: x}]}]}}"},
			want: "spec.initContainers[i].env[NMP_PRINCIPAL]",
		},
		"in a debug container": {
			q: question{
				resource: "pods/ephemeralcontainers",
				object:   "{apiVersion: v1, kind: Pod, spec: {containers: [{name: c}], ephemeralContainers: [{name: d, env: [{name: NMP_PRINCIPAL, value: x}]}]}}",
				old:      "{apiVersion: v1, kind: Pod, spec: {containers: [{name: c}]}}",
			},
			want: "spec.ephemeralContainers[d].env[NMP_PRINCIPAL]",
		},
		"a debug container beside an old fault": {q: question{
			resource: "pods/ephemeralcontainers",
			object:   "{apiVersion: v1, kind: Pod, spec: {containers: [{name: c, env: [{name: NMP_PRINCIPAL, value: x}]}], ephemeralContainers: [{name: d}]}}",
			old:      "{apiVersion: v1, kind: Pod, spec: {containers: [{name: c, env: [{name: NMP_PRINCIPAL, value: x}]}]}}",
		}},
		"an envFrom prefix that completes a name":  {q: question{object: envFrom("NMP_")}, want: "spec.containers[c].envFrom[NMP_]"},
		"an envFrom prefix beyond a prefix":        {q: question{object: envFrom("NMP_WORKLOAD_X")}, want: "envFrom[NMP_WORKLOAD_X]"},
		"a harmless envFrom prefix":                {q: question{object: envFrom("APP_")}},
		"no envFrom prefix":                        {q: question{object: envFrom("")}},
		"a kubelet's mirror of a static pod":       {q: question{object: mirrored, user: "system:node:n", groups: []string{"system:nodes"}}},
		"a mirror annotation by anyone else":       {q: question{object: mirrored}, want: "NMP_PRINCIPAL"},
		"in a Job's template":                      {q: question{object: workload("batch/v1", "Job", "NMP_PRINCIPAL")}, want: "spec.template.spec.containers[trainer].env[NMP_PRINCIPAL]"},
		"in a CronJob's template":                  {q: question{object: cron("NMP_PRINCIPAL")}, want: "spec.jobTemplate.spec.template.spec.containers[trainer].env[NMP_PRINCIPAL]"},
		"in a Deployment's template":               {q: question{object: workload("apps/v1", "Deployment", "NMP_PRINCIPAL")}, want: "spec.template.spec.containers[trainer]"},
		"a ReplicaSet without a template":          {q: question{object: "{apiVersion: apps/v1, kind: ReplicaSet, spec: {}}"}},
		"an update that keeps an old fault":        {q: question{object: workload("apps/v1", "Deployment", "NMP_PRINCIPAL"), old: workload("apps/v1", "Deployment", "NMP_PRINCIPAL")}},
		"an update that adds a fault to the first": {q: question{object: workload("apps/v1", "Deployment", "NMP_PRINCIPAL", "NMP_ACCESS_TOKEN"), old: workload("apps/v1", "Deployment", "NMP_PRINCIPAL")}, want: "NMP_ACCESS_TOKEN"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			expect(t, ask(t, v, tc.q), tc.want)
		})
	}
}

func TestReservedNamesAreCheap(t *testing.T) {
	t.Parallel()
	v := named(t, defaults(), ReservedNames)
	var containers []string
	for c := range 40 {
		var env []string
		for e := range 400 {
			env = append(env, fmt.Sprintf("{name: NMP_VAR_%d_%d, value: x}", c, e))
		}
		containers = append(containers, fmt.Sprintf("{name: c%d, env: [%s]}", c, strings.Join(env, ", ")))
	}
	big := "{apiVersion: v1, kind: Pod, spec: {containers: [" + strings.Join(containers, ", ") + "]}}"
	expect(t, ask(t, v, question{object: big}), "")
}

// expect checks that the decisions are refusals with the wanted words, or that there is none.
func expect(t *testing.T, got []decision, want string) {
	t.Helper()
	if want == "" {
		for _, d := range got {
			t.Errorf("refused: %s (%s): %s", d.Reason, d.Evaluation, d.Message)
		}
		return
	}
	for _, d := range got {
		if d.Evaluation == "error" {
			t.Errorf("could not be evaluated: %s", d.Message)
		}
		if strings.Contains(d.Message, want) && d.Reason == "Forbidden" {
			return
		}
	}
	t.Errorf("no refusal says %q: %v", want, got)
}

func envFrom(prefix string) string {
	return "{apiVersion: v1, kind: Pod, spec: {containers: [{name: c, envFrom: [{prefix: '" + prefix + "', configMapRef: {name: x}}]}]}}"
}

func template(names []string) string {
	var env []string
	for _, n := range names {
		env = append(env, "{name: "+n+", value: x}")
	}
	return "{template: {spec: {containers: [{name: trainer, env: [" + strings.Join(env, ", ") + "]}]}}}"
}

func workload(version, kind string, names ...string) string {
	return "{apiVersion: " + version + ", kind: " + kind + ", metadata: {name: w}, spec: " + template(names) + "}"
}

func cron(names ...string) string {
	return "{apiVersion: batch/v1, kind: CronJob, metadata: {name: w}, spec: {jobTemplate: {spec: " + template(names) + "}}}"
}

// TestReservedNamesOfALargePod has more variables than anybody's pod, none of them the platform's: a policy that runs out of
// what the API server lets an expression cost refuses.
func TestReservedNamesOfALargePod(t *testing.T) {
	t.Parallel()
	var env strings.Builder
	for i := range 40_000 {
		fmt.Fprintf(&env, "{name: S%d, value: x}, ", i)
	}
	expect(t, ask(t, named(t, defaults(), ReservedNames), question{object: podWith(env.String())}), "")
}
