package arch

import (
	"fmt"
	"go/ast"
	"go/token"
	"path"
	"regexp"
	"strings"
)

// Aliases finds imports under another name than their own where nothing asks for one, and well-known ones under a
// name that is not the field's. The path's last two elements in one word, such as clientcmdapi, always pass.
func Aliases(t *Tree) []string {
	var found []string
	for _, f := range t.Go {
		if f.Nested {
			continue
		}
		for _, spec := range f.Syntax.Imports {
			if why := wrongAlias(f, spec); why != "" {
				found = append(found, fmt.Sprintf("%s: %s", f.At(spec), why))
			}
		}
	}
	return found
}

func wrongAlias(f *GoFile, spec *ast.ImportSpec) string {
	full, alias := strings.Trim(spec.Path.Value, `"`), ""
	if spec.Name != nil {
		alias = spec.Name.Name
	}
	want := wellKnown(full)
	switch {
	case alias == "_":
		return ""
	case want != "" && alias != want:
		return fmt.Sprintf("%s is imported as %s everywhere", full, want)
	case want != "" || alias == "" || alias == path.Base(path.Dir(full))+path.Base(full) || aliasNeeded(f, full):
		return ""
	}
	return fmt.Sprintf("%s needs no other name (%s)", full, alias)
}

// wellKnown gives the one name under which a well-known package is imported, or nothing.
func wellKnown(full string) string {
	switch full {
	case "k8s.io/apimachinery/pkg/apis/meta/v1":
		return "metav1"
	case "k8s.io/apimachinery/pkg/api/errors":
		return "apierrors"
	case "sigs.k8s.io/controller-runtime":
		return "ctrl"
	}
	if m := regexp.MustCompile(`^k8s\.io/api/([a-z]+)/(v[0-9a-z]+)$`).FindStringSubmatch(full); m != nil {
		return m[1] + m[2]
	}
	return ""
}

// aliasNeeded says whether a package's own name would not do: it is a version or "lib", it differs from the path's last element,
// it belongs to the standard library or another import too, or the file declares that name itself.
func aliasNeeded(f *GoFile, full string) bool {
	base := path.Base(full)
	if regexp.MustCompile(`^v[0-9]|^lib$|[-._]`).MatchString(base) || token.IsKeyword(base) {
		return true
	}
	for _, other := range f.Imports() {
		if other != full && path.Base(other) == base {
			return true
		}
	}
	used := false
	ast.Inspect(f.Syntax, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && id.Name == base {
			used = true
		}
		return !used
	})
	return used
}
