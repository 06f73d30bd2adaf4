//go:build unix

package chart

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// ownMetric finds our metrics in a query; a histogram's series carry a suffix.
var ownMetric = regexp.MustCompile(`lanyard_[a-z_]+`)

func TestAlertsAndDashboardsNameMetricsThatExist(t *testing.T) {
	t.Parallel()
	reference, err := os.ReadFile("../../docs/reference/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	// Those that only a running program has stand in the code alone.
	sources, err := filepath.Glob("../../exchange/*.go")
	if err != nil || len(sources) == 0 {
		t.Fatalf("the exchange has no code: %v", err)
	}
	for _, file := range append(sources, "../../exchange/reconcile/metrics.go") {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		reference = append(reference, strings.ReplaceAll(string(raw), `"`, "`")...)
	}
	files, err := filepath.Glob("../../charts/lanyard/files/*.*")
	if err != nil || len(files) == 0 {
		t.Fatalf("the chart has no files: %v", err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(file, ".json") && !json.Valid(raw) {
			t.Errorf("%s is not JSON", file)
		}
		found := ownMetric.FindAllString(string(raw), -1)
		if len(found) == 0 {
			t.Errorf("%s names no metric of ours", file)
		}
		for _, name := range found {
			if !strings.Contains(string(reference), "`"+strings.TrimSuffix(name, "_bucket")+"`") {
				t.Errorf("%s names %s, which docs/reference/metrics.md does not have", file, name)
			}
		}
	}
}
