package arch

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

// rules are all rules by name; testdata/NAME*.txtar plants a violation of each.
func rules() map[string]func(*Tree) []string {
	return map[string]func(*Tree) []string{
		"aliases": Aliases, "arrows": Arrows, "attacks": Attacks, "exported-docs": ExportedDocs, "fuzz-seeds": FuzzSeeds, "inits": Inits,
		"machine": Machine, "metrics": Metrics, "names": Names, "package-docs": PackageDocs, "reasons": Reasons,
		"sizes": Sizes, "sleeps": Sleeps, "spellings": Spellings,
	}
}

func TestTheHouseKeepsItsRules(t *testing.T) {
	t.Parallel()
	tree, err := Load("../..")
	if err != nil {
		t.Fatal(err)
	}
	for name, rule := range rules() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, finding := range rule(tree) {
				t.Error(finding)
			}
		})
	}
	for _, hint := range Long(tree) {
		t.Log("longer than aimed at:", hint)
	}
}

// TestEveryRuleFindsWhatIsPlanted reads testdata/RULE.txtar and RULE.CASE.txtar: the comment's lines are what must be found, one
// finding each, in order; an empty comment means that nothing may be found.
func TestEveryRuleFindsWhatIsPlanted(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	planted := map[string]bool{}
	for _, file := range files {
		base := strings.TrimSuffix(filepath.Base(file), ".txtar")
		name, _, _ := strings.Cut(base, ".")
		rule, ok := rules()[name]
		if !ok {
			t.Errorf("%s: there is no rule %q", file, name)
			continue
		}
		archive, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		want := strings.FieldsFunc(string(archive.Comment), func(r rune) bool { return r == '\n' })
		planted[name] = planted[name] || len(want) > 0
		t.Run(base, func(t *testing.T) {
			t.Parallel()
			compare(t, want, rule(unpack(t, archive)))
		})
	}
	for name := range rules() {
		if !planted[name] {
			t.Errorf("rule %q has no planted violation in testdata", name)
		}
	}
}

func unpack(t *testing.T, archive *txtar.Archive) *Tree {
	t.Helper()
	files := map[string][]byte{}
	for _, f := range archive.Files {
		files[f.Name] = []byte(strings.ReplaceAll(string(f.Data), "<500 LINES>\n", strings.Repeat("//\n", 500)))
	}
	tree, err := New(files)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

func compare(t *testing.T, want, got []string) {
	t.Helper()
	if len(want) != len(got) {
		t.Fatalf("%d findings, want %d:\n%s", len(got), len(want), strings.Join(got, "\n"))
	}
	for i := range want {
		if !strings.Contains(got[i], want[i]) {
			t.Errorf("finding %d = %q, want it to say %q", i, got[i], want[i])
		}
	}
}

func TestTheTreeIsReadWithoutGitToo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, data := range map[string]string{"a/a.go": "// Package a is.\npackage a\n", "dist/b.go": "package b\n", "n/go.mod": "module n\n", "n/x/x.go": "package x\n"} {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tree, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(tree.Go) != 2 || tree.Go[0].Nested || !tree.Go[1].Nested {
		t.Errorf("read %d Go files, want a/a.go and, nested, n/x/x.go", len(tree.Go))
	}
}
