package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/lanyard-k8s/lanyard/connector/nodebinding"
)

// TestThreatsAreTried holds the threat model's rows T1 to T42 (the connector), X1 to X28 (the exchange) and D1 to D27 (jobs on one
// machine) to tests that exist.
func TestThreatsAreTried(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(root, "docs/threat-model.md"))
	if err != nil {
		t.Fatal(err)
	}
	for letter, want := range map[string]int{"T": 42, "X": 28, "D": 27} {
		rows := regexp.MustCompile(`(?m)^\| `+letter+`([0-9]+) \|.*\| ([^|]+) \|$`).FindAllStringSubmatch(string(text), -1)
		if len(rows) != want {
			t.Errorf("%d rows %s, want %d", len(rows), letter, want)
		}
		for i, m := range rows {
			if m[1] != strconv.Itoa(i+1) {
				t.Errorf("row %d is %s%s", i+1, letter, m[1])
			}
			if !strings.Contains(m[2], "`Test") && m[2] != "none" {
				t.Errorf("%s%s is tried by %q, which is neither a test nor none", letter, m[1], m[2])
			}
		}
	}
	tests := testsOfTheTree(t)
	for _, m := range regexp.MustCompile("`(Test[A-Za-z0-9]+)`").FindAllStringSubmatch(string(text), -1) {
		if !tests[m[1]] {
			t.Errorf("there is no test %s", m[1])
		}
	}
}

// testsOfTheTree are the names of all tests.
func testsOfTheTree(t *testing.T) map[string]bool {
	t.Helper()
	out, err := exec.Command("git", "-C", root, "grep", "--untracked", "-h", "-o", "func Test[A-Za-z0-9]*", "--", "*_test.go").Output()
	if err != nil {
		t.Skipf("git does not list the tests: %v", err)
	}
	found := map[string]bool{}
	for line := range strings.Lines(string(out)) {
		found[strings.TrimPrefix(strings.TrimSpace(line), "func ")] = true
	}
	return found
}

// TestTheConnectorsPageIsComplete holds docs/connector.md to the rows of the truth table and to the reasons.
func TestTheConnectorsPageIsComplete(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(root, "docs/connector.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile(`(?m)^\| ([0-9]+) \| (socket|deployment)`).FindAllStringSubmatch(string(text), -1)
	for i, m := range rows {
		if m[1] != strconv.Itoa(i+1) {
			t.Errorf("row %d of the truth table is numbered %s", i+1, m[1])
		}
	}
	if len(rows) != 33 {
		t.Errorf("%d rows, want 33", len(rows))
	}
	for _, r := range nodebinding.Reasons() {
		if !strings.Contains(string(text), "`"+string(r)+"`") {
			t.Errorf("reason %s is missing", r)
		}
	}
}
