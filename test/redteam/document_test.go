//go:build unix

package redteam

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const threatModel = "../../docs/threat-model.md"

// rows are the attacks of the threat model by number: the cells of "attack", "outcome" and "enforced by".
func rows(t *testing.T) map[string][3]string {
	t.Helper()
	content, err := os.ReadFile(threatModel)
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile(`(?m)^\| (A[0-9]+) \| (.+) \| (.+) \| (.+) \|$`)
	found := map[string][3]string{}
	for _, m := range row.FindAllStringSubmatch(string(content), -1) {
		if _, twice := found[m[1]]; twice {
			t.Errorf("%s stands twice in %s", m[1], threatModel)
		}
		found[m[1]] = [3]string{m[2], m[3], m[4]}
	}
	return found
}

// documented fails the test of an attack unless the threat model gives its number this outcome, and names the defences.
func documented(t *testing.T, outcome string, defences ...string) {
	t.Helper()
	number := regexp.MustCompile(`^TestA0?([0-9]+)`).FindStringSubmatch(t.Name())
	if number == nil {
		t.Fatalf("%s has no number", t.Name())
	}
	row, ok := rows(t)["A"+number[1]]
	if !ok {
		t.Fatalf("A%s is not in %s", number[1], threatModel)
	}
	if !strings.Contains(row[1], outcome) {
		t.Errorf("%s says of A%s %q, the test says %q", threatModel, number[1], row[1], outcome)
	}
	for _, d := range defences {
		if !strings.Contains(row[2], d) {
			t.Errorf("%s says that A%s is answered by %q, the test by %q", threatModel, number[1], row[2], d)
		}
	}
}

// TestEveryAttackIsATest holds the document's numbers and the tests' together: forty attacks, each with one test, which
// names the document's outcome.
func TestEveryAttackIsATest(t *testing.T) {
	t.Parallel()
	var want []string
	for n := 1; n <= 40; n++ {
		want = append(want, fmt.Sprintf("A%d", n))
	}
	listed := rows(t)
	for _, number := range want {
		if _, ok := listed[number]; !ok {
			t.Errorf("%s is not in %s", number, threatModel)
		}
	}
	if len(listed) != len(want) {
		t.Errorf("%s lists %d attacks, want %d", threatModel, len(listed), len(want))
	}
	tests := attackTests(t)
	slices.Sort(want)
	if !slices.Equal(tests, want) {
		t.Errorf("the tests that name an outcome are %q, want %q", tests, want)
	}
}

// attackX fails the test of an attack on the exchange unless the threat model gives its number this outcome, names the defences, and
// names this very test. A policy is named as in a refusal.
func attackX(t *testing.T, outcome string, defences ...string) {
	t.Helper()
	number := regexp.MustCompile(`^TestX0?([0-9]+)`).FindStringSubmatch(t.Name())
	if number == nil {
		t.Fatalf("%s has no number", t.Name())
	}
	content, err := os.ReadFile(threatModel)
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile(`(?m)^\| X` + number[1] + ` \| (.+) \| (.+) \| (.+) \| (.+) \|$`).FindStringSubmatch(string(content))
	if row == nil {
		t.Fatalf("X%s is not in %s", number[1], threatModel)
	}
	if !strings.Contains(row[2], outcome) {
		t.Errorf("%s says of X%s %q, the test says %q", threatModel, number[1], row[2], outcome)
	}
	for _, d := range defences {
		if !strings.Contains(row[3], strings.TrimPrefix(d, "policy ")) {
			t.Errorf("%s says that X%s is answered by %q, the test by %q", threatModel, number[1], row[3], d)
		}
	}
	if !strings.Contains(row[4], "`"+t.Name()+"`") {
		t.Errorf("%s names %s for X%s, and not %s", threatModel, row[4], number[1], t.Name())
	}
}

// TestEveryAttackOnTheExchangeIsATest: twenty-eight attacks, each with one test here.
func TestEveryAttackOnTheExchangeIsATest(t *testing.T) {
	t.Parallel()
	found := map[string]int{}
	files, err := filepath.Glob("x_*_test.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("no test files: %v", err)
	}
	for _, file := range files {
		tree, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range tree.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && strings.HasPrefix(f.Name.Name, "TestX") && calls(f.Body, "attackX") {
				found[f.Name.Name[len("TestX"):][:2]]++
			}
		}
	}
	for n := 1; n <= 28; n++ {
		if got := found[fmt.Sprintf("%02d", n)]; got != 1 {
			t.Errorf("X%d has %d tests", n, got)
		}
	}
}

// attackTests are the numbers of the tests that call documented, sorted.
func attackTests(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("*_test.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("no test files: %v", err)
	}
	name := regexp.MustCompile(`^TestA0?([0-9]+)`)
	var numbers []string
	for _, file := range files {
		tree, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range tree.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || !name.MatchString(f.Name.Name) {
				continue
			}
			if calls(f.Body, "documented") {
				numbers = append(numbers, "A"+name.FindStringSubmatch(f.Name.Name)[1])
			}
		}
	}
	slices.Sort(numbers)
	return numbers
}

func calls(body ast.Node, name string) bool {
	found := false
	ast.Inspect(body, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			id, ok := call.Fun.(*ast.Ident)
			found = found || (ok && id.Name == name)
		}
		return !found
	})
	return found
}
