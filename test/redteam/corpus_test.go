//go:build unix

package redteam

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/lanyard-k8s/lanyard/mutate"
	"github.com/lanyard-k8s/lanyard/mutate/manifest"
	"github.com/lanyard-k8s/lanyard/mutate/reserved"
	"github.com/lanyard-k8s/lanyard/mutate/violation"
	"github.com/lanyard-k8s/lanyard/test/podtest"
)

// nameCase is a container whose variables both layers judge.
type nameCase struct {
	Name      string         `json:"name"`
	Container map[string]any `json:"container"`
	Refused   bool           `json:"refused"`
}

// podCase is a pod that the policies judge, and the webhook's rules where an entry reaches it.
type podCase struct {
	Name     string   `json:"name"`
	In       string   `json:"in"`
	Role     *string  `json:"role"`
	Injected *string  `json:"injected"`
	Stamp    *string  `json:"stamp"`
	Account  string   `json:"account"`
	Owner    []string `json:"owner"`
	Volume   string   `json:"volume"`
	Sources  []string `json:"sources"`
	Seconds  int      `json:"seconds"`
	Policy   string   `json:"policy"`
	Webhook  []string `json:"webhook"`
}

func load[T any](t *testing.T, file string) []T {
	t.Helper()
	raw, err := os.ReadFile("testdata/corpus/" + file)
	if err != nil {
		t.Fatal(err)
	}
	var cases []T
	if err := yaml.UnmarshalStrict(raw, &cases); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return cases
}

// place puts a container somewhere into an object of some resource.
type place struct {
	resource string
	put      func(c object) object
}

// places are every list of every built-in kind that the policy of the reserved names looks at. In a Pod each list is
// tried, in the others a different one each.
func places() map[string]place {
	in := func(list string) func(c object) []podtest.Edit {
		return func(c object) []podtest.Edit { return []podtest.Edit{mainWith(), podtest.In(list, c)} }
	}
	app := func(c object) []podtest.Edit { return []podtest.Edit{podtest.Containers(podtest.Container("main"), c)} }
	side := func(c object) []podtest.Edit { c["restartPolicy"] = "Always"; return in("initContainers")(c) }
	of := func(kind string, spec object) func([]podtest.Edit) object {
		return func(edits []podtest.Edit) object {
			o := deployment(edits...)
			o["kind"] = kind
			delete(o.At("spec"), "replicas")
			maps.Copy(o.At("spec"), spec)
			return o
		}
	}
	return map[string]place{
		"a pod's container":         {"pods", func(c object) object { return pod(app(c)...) }},
		"a pod's init container":    {"pods", func(c object) object { return pod(in("initContainers")(c)...) }},
		"a pod's native sidecar":    {"pods", func(c object) object { return pod(side(c)...) }},
		"a Job's container":         {"batch/v1/jobs", func(c object) object { return job(app(c)...) }},
		"a CronJob's container":     {"batch/v1/cronjobs", func(c object) object { return cronJob(in("initContainers")(c)...) }},
		"a Deployment's container":  {"apps/v1/deployments", func(c object) object { return deployment(app(c)...) }},
		"a StatefulSet's container": {"apps/v1/statefulsets", func(c object) object { return of("StatefulSet", object{"serviceName": "x", "replicas": 0})(side(c)) }},
		"a DaemonSet's container":   {"apps/v1/daemonsets", func(c object) object { return of("DaemonSet", nil)(app(c)) }},
		"a ReplicaSet's container":  {"apps/v1/replicasets", func(c object) object { return of("ReplicaSet", object{"replicas": 0})(in("initContainers")(c)) }},
	}
}

// container is the case's container; a fresh one each time, since places change it.
func (c nameCase) container() object {
	o := object{"name": "tried", "image": "x:1"}
	maps.Copy(o, c.Container)
	return o
}

// goRefuses is what the webhook's rules say of the names in an object, as far as policies know the rule.
func goRefuses(t *testing.T, o object) bool {
	t.Helper()
	templates, err := manifest.Templates(o.JSON())
	if err != nil {
		t.Fatal(err)
	}
	if len(templates) != 1 {
		t.Fatalf("%d pod templates were found", len(templates))
	}
	own := []reserved.Own{{Name: "NMP_WORKLOAD_IDENTITY_TOKEN_FILE", Value: jobPath + "/token"}}
	refused := false
	s := &templates[0].Pod.Spec
	for _, list := range [][]manifest.Container{s.Containers, s.InitContainers, s.EphemeralContainers} {
		for i := range list {
			reserved.Check(&list[i], own, func(f reserved.Finding) {
				refused = refused || slices.Contains([]violation.Reason{violation.ReservedEnv, violation.DuplicateEnv, violation.EnvFromPrefix}, f.Reason)
			})
		}
	}
	return refused
}

// TestPoliciesAndWebhookAgree tries the corpus by dry run with the policies alone and compares their answers with those of
// the webhook's rules, in both modes.
func TestPoliciesAndWebhookAgree(t *testing.T) {
	w := redteam(t)
	names, pods := load[nameCase](t, "names.yaml"), load[podCase](t, "pods.yaml")
	if n := len(names)*len(places()) + len(pods); n < 120 {
		t.Fatalf("the corpus has %d objects", n)
	}
	debugged := w.as(attacker).pod(t, managed).name(t)
	t.Cleanup(func() {
		w.act(t, "Deny")
		if err := w.in.ApplyWebhooks(context.Background()); err != nil {
			t.Error(err)
		}
		if err := w.in.ApplyPolicies(context.Background()); err != nil {
			t.Error(err)
		}
	})
	if err := w.in.RemoveWebhooks(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, c := range pods {
		t.Run("enforce/"+c.In+"/"+c.Name, func(t *testing.T) { c.compare(t, w) })
	}
	for _, c := range names {
		t.Run("enforce/"+c.Name, func(t *testing.T) { c.enforced(t, w, debugged) })
	}
	w.loosen(t)
	for _, c := range names {
		t.Run("audit/"+c.Name, func(t *testing.T) { c.audited(t, w, debugged) })
	}
	for _, c := range pods {
		t.Run("audit/"+c.In+"/"+c.Name, func(t *testing.T) { c.compare(t, w) })
	}
}

// each tries a case in every place, debug containers included.
func (c nameCase) each(t *testing.T, w *world, debugged string, judge func(t *testing.T, where string, a answer)) {
	t.Helper()
	for where, p := range places() {
		o := p.put(c.container())
		if got := goRefuses(t, o); got != c.Refused {
			t.Errorf("%s: the webhook's rules refuse: %t, want %t", where, got, c.Refused)
		}
		o.At("metadata", "annotations")[stampKey] = attacker
		judge(t, where, w.as(attacker).do(t.Context(), http.MethodPost, at(managed, p.resource)+"?dryRun=All", o))
	}
	body := object{"spec": object{"ephemeralContainers": []any{c.container()}}}
	judge(t, "a debug container", w.root().send(t.Context(), http.MethodPatch, at(managed, "pods")+"/"+debugged+"/ephemeralcontainers?dryRun=All",
		"application/strategic-merge-patch+json", body.JSON()))
}

// invalid says that the API server has refused the object itself, before any policy.
func (a answer) invalid() bool { return a.code == http.StatusUnprocessableEntity }

func (c nameCase) enforced(t *testing.T, w *world, debugged string) {
	c.each(t, w, debugged, func(t *testing.T, where string, a answer) {
		switch {
		case c.Refused:
			a.refused(t, byNames, "set by the platform", "[tried]")
		case a.code/100 != 2 && !a.invalid():
			t.Errorf("%s: the policies refuse with %d: %s", where, a.code, a.message)
		case a.invalid() && !strings.Contains(where, "debug"):
			t.Errorf("%s: the API server does not take it: %s", where, a.message)
		}
	})
}

func (c nameCase) audited(t *testing.T, w *world, debugged string) {
	c.each(t, w, debugged, func(t *testing.T, where string, a answer) {
		if a.invalid() && strings.Contains(where, "debug") {
			return
		}
		a.accepted(t)
		warned := slices.ContainsFunc(a.warnings, func(s string) bool { return strings.Contains(s, "lanyard-reserved-names") })
		if warned != c.Refused {
			t.Errorf("%s: warned: %t, want %t: %q", where, warned, c.Refused, a.warnings)
		}
		if where != "a pod's container" {
			return // the audit log is long, and the same code writes it
		}
		const key = "validation.policy.admission.k8s.io/validation_failure"
		if noted := strings.Contains(a.annotations(t)[key], "lanyard-reserved-names"); noted != c.Refused {
			t.Errorf("%s: in the audit log: %t, want %t", where, noted, c.Refused)
		}
	})
}

// loosen gives the policy of the reserved names the actions of mode audit, as the chart renders them.
func (w *world) loosen(t *testing.T) {
	t.Helper()
	w.act(t, "Audit", "Warn")
	bad := pod(mainWith(podtest.Env("NMP_PRINCIPAL", "x")), podtest.Annotation(stampKey, attacker))
	eventually(t, "the policy only warns", func(ctx context.Context) (bool, error) {
		return w.as(attacker).do(ctx, http.MethodPost, at(managed, "pods")+"?dryRun=All", bad).code == http.StatusCreated, nil
	})
}

// act gives the policy of the reserved names other actions.
func (w *world) act(t *testing.T, actions ...string) {
	t.Helper()
	const binding = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings/lanyard-reserved-names"
	w.root().do(context.Background(), http.MethodPatch, binding, object{"spec": object{"validationActions": actions}}).accepted(t)
}

// pod is the case's pod.
func (c podCase) pod() object {
	edits := []podtest.Edit{mainWith()}
	for key, v := range map[string]*string{roleKey: c.Role, "lanyard.dev/injected": c.Injected} {
		if v != nil {
			edits = append(edits, podtest.Label(key, *v))
		}
	}
	if c.Stamp != nil {
		edits = append(edits, podtest.Annotation(stampKey, *c.Stamp))
	}
	if c.Account != "" {
		edits = append(edits, account(c.Account))
	}
	if len(c.Owner) == 2 {
		edits = append(edits, podtest.Owner(c.Owner[0], c.Owner[1]))
	}
	if len(c.Sources) > 0 {
		var sources []string
		seconds := c.Seconds
		if seconds == 0 {
			seconds = 3600
		}
		for i, audience := range c.Sources {
			path := "token"
			if i > 0 {
				path = fmt.Sprint("token", i)
			}
			sources = append(sources, fmt.Sprintf(`{"serviceAccountToken":{"audience":%q,"expirationSeconds":%d,"path":%q}}`, audience, seconds, path))
		}
		name := c.Volume
		if name == "" {
			name = "own"
		}
		edits = append(edits, projecting(name, sources...))
	}
	return pod(edits...)
}

// compare asks both layers.
func (c podCase) compare(t *testing.T, w *world) {
	o := c.pod()
	a := w.as(attacker).do(t.Context(), http.MethodPost, at("red-"+c.In, "pods")+"?dryRun=All", o)
	if c.Policy != "" {
		a.refused(t, "policy "+c.Policy, "")
	} else if a.code != http.StatusCreated {
		t.Errorf("the policies refuse with %d: %s", a.code, a.message)
	}
	if c.Webhook == nil {
		return
	}
	d, err := mutate.Verify(mutate.Request{
		Entry:     map[string]mutate.Entry{"managed": mutate.EntryJob, "publishing": mutate.EntryPublisher, "listed": mutate.EntryListed}[c.In],
		Operation: mutate.Create, Kind: mutate.GroupKind{Kind: "Pod"}, Namespace: "red-" + c.In, Username: attacker, Object: o.JSON(),
	}, rules(t, ""))
	if err != nil {
		t.Fatal(err)
	}
	got := []string{}
	for _, v := range d.Violations {
		if v.Reason != violation.NotInjected && !slices.Contains(got, string(v.Reason)) {
			got = append(got, string(v.Reason))
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, c.Webhook) {
		t.Errorf("the webhook's rules say %q, want %q", got, c.Webhook)
	}
	// Stamps are no fault to the webhook: it writes the right one, which is the one that the policy accepts.
	if stamps := strings.HasPrefix(c.Policy, "lanyard-creator-"); c.Policy != "" && !stamps && d.Outcome != mutate.Denied {
		t.Errorf("a policy refuses what the webhook's rules call %s", d.Outcome)
	}
	if c.In == "managed" {
		c.stamped(t, o)
	}
}

// stamped asks what the webhook would write as the stamp: nothing exactly where the policies are content with what is there.
func (c podCase) stamped(t *testing.T, o object) {
	t.Helper()
	job := object{"apiVersion": "batch/v1", "kind": "Job", "metadata": object{"annotations": o.At("metadata")["annotations"]}, "spec": object{}}
	d, err := mutate.Stamp(mutate.Request{
		Entry: mutate.EntryJob, Operation: mutate.Create, Kind: mutate.GroupKind{Group: "batch", Kind: "Job"}, Namespace: managed, Username: attacker, Object: job.JSON(),
	}, rules(t, ""))
	if err != nil {
		t.Fatal(err)
	}
	if content := !strings.HasPrefix(c.Policy, "lanyard-creator-"); content != (len(d.Patch) == 0) {
		t.Errorf("the policies are content with the stamp: %t, the webhook writes another: %t", content, len(d.Patch) > 0)
	}
}
