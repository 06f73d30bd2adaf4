package arch

import (
	"fmt"
	"go/ast"
	"maps"
	"path"
	"slices"
	"strings"
)

const (
	linesAimedAt = 200
	linesAtMost  = 500
	mainAtMost   = 40
)

// Sizes finds files that are too long, main.go's above all.
func Sizes(t *Tree) []string {
	var found []string
	for _, f := range t.Go {
		switch {
		case f.Generated():
		case f.Lines > linesAtMost:
			found = append(found, fmt.Sprintf("%s: %d lines; split it, %d is the end", f.Path, f.Lines, linesAtMost))
		case path.Base(f.Path) == "main.go" && strings.HasPrefix(f.Dir, "cmd/") && f.Lines > mainAtMost:
			found = append(found, fmt.Sprintf("%s: %d lines; a main.go has at most %d, the rest goes to run.go", f.Path, f.Lines, mainAtMost))
		}
	}
	return found
}

// Long lists the files beyond the size aimed at. It is a hint, not a fault.
func Long(t *Tree) []string {
	var found []string
	for _, f := range t.Go {
		if !f.Generated() && f.Lines > linesAimedAt {
			found = append(found, fmt.Sprintf("%s: %d lines", f.Path, f.Lines))
		}
	}
	return found
}

// Names finds packages named after nothing in particular.
func Names(t *Tree) []string {
	var found []string
	for _, f := range t.Go {
		for part := range strings.SplitSeq(f.Dir, "/") {
			if slices.Contains([]string{"pkg", "util", "utils", "common", "helper", "helpers", "manager", "misc", "shared"}, part) {
				found = append(found, fmt.Sprintf("%s: %q says nothing about what is in it", f.Path, part))
			}
		}
	}
	return found
}

// PackageDocs finds packages without a doc comment.
func PackageDocs(t *Tree) []string {
	documented := map[string]bool{}
	for _, f := range t.Go {
		documented[f.Dir] = documented[f.Dir] || f.Syntax.Doc.Text() != ""
	}
	var found []string
	for _, dir := range slices.Sorted(maps.Keys(documented)) {
		if !documented[dir] {
			found = append(found, dir+": no file of the package says what it is for")
		}
	}
	return found
}

// ExportedDocs finds exported declarations without a comment. A comment on a group counts for the group's constants and
// variables, never for its types. Error, String and Unwrap are explained by the interfaces that they fulfil.
func ExportedDocs(t *Tree) []string {
	var found []string
	for _, f := range t.Go {
		if f.Test || f.Nested || f.Generated() || f.Syntax.Name.Name == "main" {
			continue
		}
		for _, decl := range f.Syntax.Decls {
			for _, name := range undocumented(decl) {
				found = append(found, fmt.Sprintf("%s: exported %s has no comment", f.At(decl), name))
			}
		}
	}
	return found
}

func undocumented(decl ast.Decl) []string {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		known := d.Recv != nil && slices.Contains([]string{"Error", "String", "Unwrap"}, d.Name.Name)
		if d.Name.IsExported() && d.Doc.Text() == "" && receiverExported(d) && !known {
			return []string{d.Name.Name}
		}
	case *ast.GenDecl:
		var names []string
		for _, spec := range d.Specs {
			names = append(names, undocumentedSpec(d, spec)...)
		}
		return names
	}
	return nil
}

func undocumentedSpec(d *ast.GenDecl, spec ast.Spec) []string {
	group := d.Doc.Text() != ""
	switch s := spec.(type) {
	case *ast.TypeSpec:
		if s.Name.IsExported() && s.Doc.Text() == "" && s.Comment.Text() == "" && !(group && len(d.Specs) == 1) {
			return []string{s.Name.Name}
		}
	case *ast.ValueSpec:
		var names []string
		for _, n := range s.Names {
			if n.IsExported() && !group && s.Doc.Text() == "" && s.Comment.Text() == "" {
				names = append(names, n.Name)
			}
		}
		return names
	}
	return nil
}

func receiverExported(d *ast.FuncDecl) bool {
	if d.Recv == nil {
		return true
	}
	exported := false
	ast.Inspect(d.Recv.List[0].Type, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok {
			exported = id.IsExported()
			return false
		}
		return true
	})
	return exported
}

// Inits finds init functions: what a program does begins in main.
func Inits(t *Tree) []string {
	var found []string
	for _, f := range t.Go {
		for _, decl := range f.Syntax.Decls {
			if d, ok := decl.(*ast.FuncDecl); ok && d.Name.Name == "init" && d.Recv == nil && !f.Generated() {
				found = append(found, f.At(d)+": init runs before anybody asked for it")
			}
		}
	}
	return found
}
