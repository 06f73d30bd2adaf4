//go:build unix

package chart

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// dashboards are the files of dashboards.
func dashboards(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("../../charts/lanyard/files/dashboard-*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("there are no dashboards: %v", err)
	}
	return files
}

// dashboardQueries are the queries of every panel of every dashboard.
func dashboardQueries(t *testing.T) []string {
	t.Helper()
	var queries []string
	for _, file := range dashboards(t) {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var d struct {
			Title, UID string
			Panels     []struct {
				Title   string
				Targets []struct{ Expr string }
			}
		}
		if err := json.Unmarshal(raw, &d); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if d.Title == "" || d.UID == "" || len(d.Panels) == 0 {
			t.Errorf("%s has no title, no uid or no panel", file)
		}
		for _, p := range d.Panels {
			for _, target := range p.Targets {
				if p.Title == "" || target.Expr == "" {
					t.Errorf("%s: panel %q has no title or no query", file, p.Title)
				}
				queries = append(queries, target.Expr)
			}
		}
	}
	return queries
}

// foreignMetrics are those that are not ours: the API server's, and what Prometheus says of a target.
func foreignMetrics() []string {
	return []string{
		"up", "ALERTS", "apiserver_admission_webhook_rejection_count", "apiserver_admission_webhook_fail_open_count",
		"apiserver_validating_admission_policy_check_total",
	}
}

// ownMetric finds our metrics, and the seed's, in a query, with the labels that are chosen by; a histogram's series carry a suffix.
var ownMetric = regexp.MustCompile(`\b((?:lanyard|platform_connector)_[a-z_]+)(?:\{([^}]*)\})?`)

// selected finds a label and its value in a selector.
var selected = regexp.MustCompile(`([a-z_]+)(=~|!~|!=|=)"([^"]*)"`)

// TestAlertsAndDashboardsNameMetricsThatExist finds each metric in what the programs register, and each label that is selected
// by among that metric's labels.
func TestAlertsAndDashboardsNameMetricsThatExist(t *testing.T) {
	t.Parallel()
	known, told := metrics(t), 0
	_, all := alerts(t)
	queries := dashboardQueries(t)
	for _, a := range all {
		queries = append(queries, a.Expr)
	}
	for _, q := range queries {
		found := ownMetric.FindAllStringSubmatch(q, -1)
		for _, m := range found {
			labels, exists := known[strings.TrimSuffix(m[1], "_bucket")]
			if !exists {
				t.Errorf("%s: no program has the metric %s", q, m[1])
			}
			for _, s := range selected.FindAllStringSubmatch(m[2], -1) {
				if told++; exists && labels != nil && !slices.Contains(labels, s[1]) {
					t.Errorf("%s: %s has no label %s, only %q", q, m[1], s[1], labels)
				}
			}
		}
		if len(found) == 0 && !slices.ContainsFunc(foreignMetrics(), func(name string) bool { return strings.Contains(q, name) }) {
			t.Errorf("%s names no metric that is known", q)
		}
	}
	if told == 0 {
		t.Error("no label was looked at; has the notation changed?")
	}
}

// metrics are the programs' metrics with their labels, as the reference page has them. Those that only a running program has
// stand in the code alone, and their labels are nil: not known.
func metrics(t *testing.T) map[string][]string {
	t.Helper()
	known := map[string][]string{}
	page, err := os.ReadFile("../../docs/reference/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| [a-z]+ \\| ([^|]*) \\|").FindAllStringSubmatch(string(page), -1) {
		known[m[1]] = strings.FieldsFunc(m[2], func(r rune) bool { return r == '`' || r == ',' || r == ' ' })
		if known[m[1]] == nil {
			known[m[1]] = []string{}
		}
	}
	sources, err := filepath.Glob("../../exchange/*.go")
	if err != nil || len(sources) == 0 || len(known) == 0 {
		t.Fatalf("the exchange has no code, or the page no metrics: %v", err)
	}
	for _, file := range append(sources, "../../exchange/reconcile/metrics.go") {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range regexp.MustCompile(`"(lanyard_[a-z_]+)"`).FindAllStringSubmatch(string(raw), -1) {
			if _, found := known[name[1]]; !found {
				known[name[1]] = nil
			}
		}
	}
	return known
}
