//go:build unix

package chart

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// dockerAlertsFile holds the alerts for an exchange on one machine, which no chart brings.
const dockerAlertsFile = "../../docs/examples/docker/alerts.yaml"

// dockerSituations are by alert.
func dockerSituations() map[string]situation {
	on := func(metric, labels, values string) series {
		return series{metric + `{` + labels + `instance="m:8080"}`: values}
	}
	both := func(a, b series) series {
		all := maps.Clone(a)
		maps.Copy(all, b)
		return all
	}
	compared := func(outcome, values string) series {
		return on("lanyard_dockerjob_reconciles_total", `outcome="`+outcome+`",`, values)
	}
	submitted := func(outcome string) series {
		return on("lanyard_dockerjob_submissions_total", `outcome="`+outcome+`",`, "0+1x30")
	}
	return map[string]situation{
		"LanyardDockerEngineDown":      {on("lanyard_dockerjob_engine_up", "", "0x20"), on("lanyard_dockerjob_engine_up", "", "0x3 1x20"), "10m"},
		"LanyardDockerReconcilesFail":  {both(compared("store", "0+2x40"), compared("ok", "50x40")), both(compared("partly", "0+1x40"), compared("ok", "0+1x40")), "30m"},
		"LanyardDockerLeftovers":       {on("lanyard_dockerjob_leftovers_total", `kind="row",`, "0+1x90"), on("lanyard_dockerjob_leftovers_total", `kind="row",`, "0x30 3x60"), "80m"},
		"LanyardDockerSubmissionsFail": {submitted("engine"), both(submitted("invalid"), submitted("no_image")), "25m"},
	}
}

// TestTheDockerAlerts has Prometheus check the alerts of the example, and evaluate each over series on which it must fire, and over such on
// which it must not. They name what docs/docker.md explains.
func TestTheDockerAlerts(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile(dockerAlertsFile)
	if err != nil {
		t.Fatal(err)
	}
	var content struct {
		Groups []group `json:"groups"`
	}
	if err := yaml.UnmarshalStrict(raw, &content); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../docs/docker.md")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, g := range content.Groups {
		for _, a := range g.Rules {
			names = append(names, a.Alert)
			if a.For == "" || !slices.Contains([]string{"warning", "critical"}, a.Labels["severity"]) || a.Annotations["summary"] == "" {
				t.Errorf("%s: for %q, severity %q", a.Alert, a.For, a.Labels["severity"])
			}
			if !strings.Contains(string(page), "| `"+a.Alert+"` |") {
				t.Errorf("docs/docker.md says nothing of %s", a.Alert)
			}
		}
	}
	slices.Sort(names)
	if diff := cmp.Diff(names, slices.Sorted(maps.Keys(dockerSituations()))); diff != "" {
		t.Errorf("alerts with a situation (-example +test):\n%s", diff)
	}
	path, err := filepath.Abs(dockerAlertsFile)
	if err != nil {
		t.Fatal(err)
	}
	var cases []any
	for name, s := range dockerSituations() {
		cases = append(cases, s.evaluation(name, s.fires, 1), s.evaluation(name, s.quiet, 0))
	}
	promtool(t, "check", "rules", "--lint-fatal", path)
	promtool(t, "test", "rules", writeYAML(t, "docker.yaml", map[string]any{"rule_files": []any{path}, "evaluation_interval": "1m", "tests": cases}))
}
