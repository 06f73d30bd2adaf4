//go:build unix

package chart

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// alert is an entry of the files of alerts.
type alert struct {
	Alert       string            `json:"alert"`
	Expr        string            `json:"expr"`
	For         string            `json:"for"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

// group is what such a file, and a PrometheusRule, is made of.
type group struct {
	Name  string  `json:"name"`
	Rules []alert `json:"rules"`
}

// alertFiles are the files of alerts, and alerts what is in all of them.
func alerts(t *testing.T) (alertFiles []string, all []alert) {
	t.Helper()
	alertFiles, err := filepath.Glob("../../charts/lanyard/files/alerts*.yaml")
	if err != nil || len(alertFiles) == 0 {
		t.Fatalf("there are no alerts: %v", err)
	}
	for _, file := range alertFiles {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var content struct {
			Groups []group `json:"groups"`
		}
		if err := yaml.UnmarshalStrict(raw, &content); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for _, g := range content.Groups {
			all = append(all, g.Rules...)
		}
	}
	return alertFiles, all
}

func TestEveryAlertSaysWhatItMust(t *testing.T) {
	t.Parallel()
	_, all := alerts(t)
	for _, a := range all {
		if !strings.HasPrefix(a.Alert, "Lanyard") || a.Expr == "" {
			t.Errorf("alert %q has no expression or a name that is not ours", a.Alert)
		}
		if !slices.Contains([]string{"info", "warning", "critical"}, a.Labels["severity"]) {
			t.Errorf("%s has severity %q", a.Alert, a.Labels["severity"])
		}
		if diff := cmp.Diff([]string{"description", "runbook_url", "summary"}, slices.Sorted(maps.Keys(a.Annotations))); diff != "" {
			t.Errorf("annotations of %s (-want +got):\n%s", a.Alert, diff)
		}
	}
}

// promtool is Prometheus' own checker.
func promtool(t *testing.T, args ...string) {
	t.Helper()
	path, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not installed (Debian's package prometheus has it)")
	}
	if out, err := exec.CommandContext(t.Context(), path, args...).CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func TestPrometheusTakesTheAlerts(t *testing.T) {
	t.Parallel()
	files, _ := alerts(t)
	promtool(t, append([]string{"check", "rules", "--lint-fatal"}, files...)...)
}

// TestPrometheusTakesTheDashboardsQueries has promtool read every query, as a rule.
func TestPrometheusTakesTheDashboardsQueries(t *testing.T) {
	t.Parallel()
	var rules []map[string]string
	for i, q := range dashboardQueries(t) {
		rules = append(rules, map[string]string{"record": fmt.Sprintf("lanyard:query:%d", i), "expr": q})
	}
	promtool(t, "check", "rules", "--lint-fatal", writeYAML(t, "queries.yaml", map[string]any{"groups": []any{map[string]any{"name": "dashboards", "rules": rules}}}))
}

func writeYAML(t *testing.T, name string, content any) string {
	t.Helper()
	raw, err := yaml.Marshal(content)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestEveryAlertFiresAndIsQuiet has Prometheus evaluate every alert over series on which it must fire, and over such on which
// it must not.
func TestEveryAlertFiresAndIsQuiet(t *testing.T) {
	t.Parallel()
	files, all := alerts(t)
	var names []string
	for _, a := range all {
		names = append(names, a.Alert)
	}
	slices.Sort(names)
	if diff := cmp.Diff(names, slices.Sorted(maps.Keys(situations()))); diff != "" {
		t.Errorf("alerts with a situation (-chart +test):\n%s", diff)
	}
	var absolute []string
	for _, f := range files {
		path, err := filepath.Abs(f)
		if err != nil {
			t.Fatal(err)
		}
		absolute = append(absolute, path)
	}
	var cases []any
	for name, s := range situations() {
		cases = append(cases, s.evaluation(name, s.fires, 1), s.evaluation(name, s.quiet, 0))
	}
	promtool(t, "test", "rules", writeYAML(t, "situations.yaml", map[string]any{
		"rule_files": absolute, "evaluation_interval": "1m", "tests": cases,
	}))
}

// series are values by series, in promtool's notation: a+bxn.
type series map[string]string

// situation is what an alert must fire on, and what it must be quiet on, each after a time.
type situation struct {
	fires, quiet series
	after        string
}

// evaluation is promtool's form of it: after the time the alert fires so many times.
func (s situation) evaluation(name string, input series, times int) map[string]any {
	var in []any
	for name, values := range input {
		in = append(in, map[string]any{"series": name, "values": values})
	}
	expected := []any{}
	if times > 0 {
		expected = append(expected, map[string]any{"labels": "{}", "value": times})
	}
	return map[string]any{
		"name": name, "interval": "1m", "input_series": in,
		"promql_expr_test": []any{map[string]any{
			"expr": `count(ALERTS{alertname="` + name + `", alertstate="firing"})`, "eval_time": s.after, "exp_samples": expected,
		}},
	}
}
