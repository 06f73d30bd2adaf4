package main

import (
	"strings"
	"testing"
	"time"
)

func TestSummaryClosesWithTheTotals(t *testing.T) {
	t.Parallel()
	units, cluster := newTally(), newTally()
	units.passed = 7
	cluster.passed, cluster.skipped = 2, []skipped{{testKey{"p", "TestRoot"}, "needs root"}}
	var b strings.Builder
	ok := summarise(&b, []outcome{
		{group{"units", nil}, units, true, time.Second}, {group{"cluster", nil}, cluster, true, time.Second},
	})
	if !ok || !strings.HasSuffix(b.String(), "\n9 passed, 0 failed, 1 skipped\n") || !strings.Contains(b.String(), "TestRoot (p): needs root") {
		t.Errorf("ok %v, summary:\n%s", ok, b.String())
	}
}

func TestAFailedGroupFailsTheRun(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	if run(t.Context(), &b, []group{{"none", []string{"./no/such/place"}}}) {
		t.Errorf("a pattern without packages passed:\n%s", b.String())
	}
	if !strings.Contains(b.String(), "0 passed, 1 failed, 0 skipped") {
		t.Errorf("summary:\n%s", b.String())
	}
}
