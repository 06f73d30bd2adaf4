//go:build unix

package redteam

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lanyard-k8s/lanyard/test/podtest"
)

// journal is what the API server answered to one thing after another, less what differs each time anyway.
type journal []string

// TestUnmanagedNamespaceIsUntouched lives the same life in a namespace without labels of ours before Lanyard is installed
// and after it, and compares every answer byte for byte.
func TestUnmanagedNamespaceIsUntouched(t *testing.T) {
	t.Parallel()
	w := redteam(t)
	after, err := w.live(t.Context(), "after")
	if err != nil {
		t.Fatal(err)
	}
	if len(w.before) < 20 {
		t.Errorf("only %d answers were compared", len(w.before))
	}
	if diff := cmp.Diff(w.before, after); diff != "" {
		t.Errorf("answers in a namespace without our labels (-before +after):\n%s", diff)
	}
}

// act is one request of a life.
type act struct {
	method, path, kind string
	body               any
}

// live makes, changes, debugs and deletes objects that have much of what Lanyard looks at.
func (w *world) live(ctx context.Context, when string) (journal, error) {
	root := w.root()
	if a := root.do(ctx, http.MethodPost, "/api/v1/namespaces", object{"metadata": object{"name": untouched}}); a.code != http.StatusCreated && a.code != http.StatusConflict {
		return nil, fmt.Errorf("making namespace %s: %s", untouched, a.message)
	}
	if err := w.cp.AwaitServiceAccount(ctx, untouched); err != nil {
		return nil, err
	}
	var j journal
	for _, step := range life() {
		raw, err := json.Marshal(step.body)
		if err != nil {
			return nil, err
		}
		a := root.send(ctx, step.method, step.path, step.kind, raw)
		if a.code == 0 || a.code == http.StatusForbidden {
			return nil, fmt.Errorf("%s, %s %s: %d %s", when, step.method, step.path, a.code, a.message)
		}
		j = append(j, fmt.Sprintf("%s %s: %d %q %s", step.method, step.path, a.code, a.warnings, settled(a.body)))
	}
	return j, nil
}

// life is the list of acts. Everything that is made is deleted, so that it can be lived twice.
func life() []act {
	const jsonKind, merge, strategic = "application/json", "application/merge-patch+json", "application/strategic-merge-patch+json"
	plainPod := pod(mainWith(podtest.Env("NMP_PRINCIPAL", "mine"), podtest.Env("nmp_principal", "x"), podtest.Env("NMP_BASE_URL", "http://x"), podtest.EnvFrom("NMP_"),
		podtest.Mount("nmp-workload-identity", jobPath, false), podtest.Mount("own", publisherPath, true)),
		podtest.Volume(`{"name":"nmp-workload-identity","emptyDir":{}}`), projecting("own", tokenSource("vault")),
		podtest.Label("app", "x"), podtest.Annotation("lanyard.dev/containers", "nobody"), podtest.Annotation("lanyard.dev/token-expiration-seconds", "never"),
		podtest.In("initContainers", podtest.Container("side", podtest.Sidecar())), podtest.Spec("automountServiceAccountToken", true),
		func(p object) { p.At("metadata")["name"] = "pod"; delete(p.At("metadata"), "generateName") })
	named := func(o object, name string) object {
		o.At("metadata")["name"] = name
		delete(o.At("metadata"), "generateName")
		return o
	}
	suspended := named(job(mainWith(podtest.Env("NMP_PRINCIPAL", "mine"))), "job")
	suspended.At("spec")["suspend"] = true
	pods, jobs, apps, crons := at(untouched, "pods"), at(untouched, "batch/v1/jobs"), at(untouched, "apps/v1/deployments"), at(untouched, "batch/v1/cronjobs")
	label := object{"metadata": object{"labels": object{"touched": "yes"}}}
	token := object{"spec": object{"audiences": []string{"vault"}}}
	debug := object{"spec": object{"ephemeralContainers": []any{podtest.Container("debugger", podtest.Env("NMP_PRINCIPAL", "x"), podtest.EnvFrom(""), podtest.Mount("nmp-workload-identity", "/x", false))}}}
	return []act{
		{http.MethodPost, pods + "?dryRun=All", jsonKind, plainPod},
		{http.MethodPost, pods, jsonKind, plainPod},
		{http.MethodPatch, pods + "/pod", merge, label},
		{http.MethodPatch, pods + "/pod", merge, object{"metadata": object{"labels": object{roleKey: "publisher"}, "annotations": object{"lanyard.dev/job-containers": "x"}}}},
		{http.MethodPatch, pods + "/pod/ephemeralcontainers", strategic, debug},
		{http.MethodPost, pods + "/pod/exec?command=ls&stdout=true&container=main", jsonKind, nil},
		{http.MethodPost, pods + "/pod/attach?stdout=true&container=main", jsonKind, nil},
		{http.MethodPatch, pods + "/pod/status", merge, object{"status": object{"message": "x"}}},
		{http.MethodPatch, pods + "/pod/resize", strategic, object{"spec": object{"containers": []any{object{"name": "main", "resources": object{}}}}}},
		{http.MethodGet, pods + "/pod", jsonKind, nil},
		{http.MethodPost, at(untouched, "serviceaccounts") + "/default/token?dryRun=All", jsonKind, token},
		{http.MethodPost, jobs, jsonKind, suspended},
		{http.MethodPatch, jobs + "/job", merge, label},
		{http.MethodPost, crons, jsonKind, named(cronJob(mainWith(podtest.Env("NMP_WORKLOAD_X", "x"))), "cron")},
		{http.MethodPatch, crons + "/cron", merge, object{"spec": object{"suspend": true}}},
		{http.MethodPost, apps, jsonKind, named(deployment(mainWith(podtest.Env("NEMO_WORKFLOW_X", "x"))), "app")},
		{http.MethodPatch, apps + "/app/scale", merge, object{"spec": object{"replicas": 0}}},
		{http.MethodPost, at(untouched, "configmaps"), jsonKind, object{"metadata": object{"name": "settings"}, "data": object{"NMP_PRINCIPAL": "x"}}},
		{http.MethodDelete, at(untouched, "configmaps") + "/settings", jsonKind, nil},
		{http.MethodDelete, apps + "/app", jsonKind, nil},
		{http.MethodDelete, crons + "/cron", jsonKind, nil},
		{http.MethodDelete, jobs + "/job?propagationPolicy=Background", jsonKind, nil},
		{http.MethodDelete, pods + "/pod?gracePeriodSeconds=0", jsonKind, nil},
	}
}

// settled takes out of an answer what differs between two equal objects: identities, times, versions and random names, and
// what the controllers write by the by.
func settled(body []byte) string {
	said := strings.TrimSpace(string(body))
	var o map[string]any
	if json.Unmarshal(body, &o) == nil {
		if kind, _ := o["kind"].(string); kind == "Job" || kind == "CronJob" || kind == "Deployment" {
			delete(o, "status")
		}
		if meta, ok := o["metadata"].(map[string]any); ok {
			fields, _ := meta["managedFields"].([]any)
			meta["managedFields"] = slices.DeleteFunc(fields, func(f any) bool { return strings.HasPrefix(text(f, "manager"), "kube-") })
		}
		raw, err := json.Marshal(o)
		if err != nil {
			return err.Error()
		}
		said = string(raw)
	}
	for pattern, with := range map[string]string{
		`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`: "UID",
		`"resourceVersion":"[0-9]+"`:                                   `"resourceVersion":"N"`,
		`[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z`:                         "TIME",
		`kube-api-access-[a-z0-9]{5}`:                                  "kube-api-access-X",
		`"token":"[^"]*"`:                                              `"token":"T"`,
	} {
		said = regexp.MustCompile(pattern).ReplaceAllString(said, with)
	}
	return said
}
