package arch

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// ReasonsDoc and MetricsDoc are where reasons and metrics are explained.
const (
	ReasonsDoc = "docs/reference/reasons.md"
	MetricsDoc = "docs/reference/metrics.md"
)

// reasonsFiles are where people's refusals are given their reasons, each as a type Reason: the webhook's and the connector's.
func reasonsFiles() []string {
	return []string{"mutate/violation/violation.go", "connector/nodebinding/reason.go"}
}

// Reasons finds reasons that ReasonsDoc does not explain, or that no test names.
func Reasons(t *Tree) []string {
	var found []string
	for _, file := range reasonsFiles() {
		reasons := typedConstants(t, file, "Reason")
		if len(reasons) == 0 {
			found = append(found, file+": no constant of type Reason; has it moved?")
		}
		for _, name := range slices.Sorted(maps.Keys(reasons)) {
			if text := reasons[name]; !bytes.Contains(t.Files[ReasonsDoc], []byte("| `"+text+"` |")) {
				found = append(found, fmt.Sprintf("%s: `%s` is not explained", ReasonsDoc, text))
			}
			if !namedInTest(t, path.Dir(file), name, reasons[name]) {
				found = append(found, fmt.Sprintf("%s: no test names %s (%s)", file, name, reasons[name]))
			}
		}
	}
	return found
}

// typedConstants reads the constants of a string type from a file: their names and texts.
func typedConstants(t *Tree, file, typeName string) map[string]string {
	found := map[string]string{}
	for _, f := range t.Go {
		if f.Path != file {
			continue
		}
		ast.Inspect(f.Syntax, func(n ast.Node) bool {
			s, ok := n.(*ast.ValueSpec)
			if !ok || len(s.Values) != 1 {
				return true
			}
			id, ok := s.Type.(*ast.Ident)
			lit, isLit := s.Values[0].(*ast.BasicLit)
			if ok && id.Name == typeName && isLit {
				found[s.Names[0].Name], _ = strconv.Unquote(lit.Value)
			}
			return true
		})
	}
	return found
}

// namedInTest says whether a test outside the declaring package, or a golden, names the constant or its text.
func namedInTest(t *Tree, declaring, name, text string) bool {
	byName := regexp.MustCompile(`\b` + path.Base(declaring) + `\.` + name + `\b`)
	byText := regexp.MustCompile(`\b` + text + `\b`)
	for file, data := range t.Files {
		isTest := strings.HasSuffix(file, "_test.go") || strings.Contains(file, "/testdata/")
		if isTest && !strings.HasPrefix(file, declaring+"/") && !strings.HasPrefix(file, "test/arch/") &&
			(byName.Match(data) || byText.Match(data)) {
			return true
		}
	}
	return false
}

// Metrics finds metrics that MetricsDoc does not explain.
func Metrics(t *Tree) []string {
	var found []string
	for _, f := range t.Go {
		if f.Test || f.Nested {
			continue
		}
		ast.Inspect(f.Syntax, func(n ast.Node) bool {
			lit, ok := n.(*ast.CompositeLit)
			if !ok || !isMetricOpts(lit.Type) {
				return true
			}
			if name := stringField(lit, "Name"); name != "" && !regexp.MustCompile("`[a-z_]*"+name+"`").Match(t.Files[MetricsDoc]) {
				found = append(found, fmt.Sprintf("%s: metric %s is not explained in %s", f.At(lit), name, MetricsDoc))
			}
			return true
		})
	}
	return found
}

// isMetricOpts says whether a literal's type is one of prometheus's option types, such as prometheus.CounterOpts.
func isMetricOpts(typ ast.Expr) bool {
	sel, ok := typ.(*ast.SelectorExpr)
	if !ok || !strings.HasSuffix(sel.Sel.Name, "Opts") {
		return false
	}
	id, ok := sel.X.(*ast.Ident)
	return ok && id.Name == "prometheus"
}

func stringField(lit *ast.CompositeLit, key string) string {
	for _, elt := range lit.Elts {
		kv, ok := elt.(*ast.KeyValueExpr)
		if !ok {
			continue
		}
		id, isID := kv.Key.(*ast.Ident)
		val, isLit := kv.Value.(*ast.BasicLit)
		if isID && isLit && id.Name == key && val.Kind == token.STRING {
			s, _ := strconv.Unquote(val.Value)
			return s
		}
	}
	return ""
}

// machine matches absolute paths that belong to one person's or one build machine.
var machine = regexp.MustCompile(`(^|[\s"'(=:,\x60])(/(home|Users)/[A-Za-z0-9_-]+/|/(root|work)\b|C:\\Users\\)`)

// Machine finds absolute paths of somebody's machine in any tracked text file.
func Machine(t *Tree) []string {
	var found []string
	for _, name := range slices.Sorted(maps.Keys(t.Files)) {
		data := t.Files[name]
		if strings.HasPrefix(name, "test/arch/") || bytes.IndexByte(data, 0) >= 0 {
			continue
		}
		i := 0
		for line := range bytes.Lines(data) {
			i++
			if m := machine.FindSubmatch(line); m != nil {
				found = append(found, fmt.Sprintf("%s:%d: %q is a path on one machine", name, i, m[2]))
			}
		}
	}
	return found
}
