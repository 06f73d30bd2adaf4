//go:build unix

package redteam

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

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
