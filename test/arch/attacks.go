package arch

import (
	"fmt"
	"go/ast"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
)

// threatModel lists the attacks; its rows that begin with a letter X and a number are those on the exchange.
const threatModel = "docs/threat-model.md"

// Attacks finds tests that a document names and that do not exist, and attacks on the exchange that name none: what a document
// promises is tried somewhere, even where the outcome is that nothing stops it.
func Attacks(t *Tree) []string {
	tests := map[string]bool{}
	for _, f := range t.Go {
		if !f.Test {
			continue
		}
		for _, decl := range f.Syntax.Decls {
			if d, ok := decl.(*ast.FuncDecl); ok && d.Recv == nil {
				tests[d.Name.Name] = true
			}
		}
	}
	var found []string
	named, row := regexp.MustCompile("`(Test[A-Z0-9][A-Za-z0-9]*)`"), regexp.MustCompile(`^\| (X[0-9]+) \|`)
	for _, name := range slices.Sorted(maps.Keys(t.Files)) {
		if path.Dir(name) != "docs" || path.Ext(name) != ".md" {
			continue
		}
		for i, line := range strings.Split(string(t.Files[name]), "\n") {
			at, all := fmt.Sprintf("%s:%d", name, i+1), named.FindAllStringSubmatch(line, -1)
			for _, m := range all {
				if !tests[m[1]] {
					found = append(found, fmt.Sprintf("%s: there is no test %s", at, m[1]))
				}
			}
			if x := row.FindStringSubmatch(line); x != nil && name == threatModel && len(all) == 0 {
				found = append(found, fmt.Sprintf("%s: %s names no test", at, x[1]))
			}
		}
	}
	return found
}
