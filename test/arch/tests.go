package arch

import (
	"fmt"
	"go/ast"
	"path"
	"strings"
)

// Sleeps finds tests that wait by the clock. They wait for what they need instead, or use a fake clock.
func Sleeps(t *Tree) []string {
	var found []string
	for _, f := range t.Go {
		if !f.Test {
			continue
		}
		ast.Inspect(f.Syntax, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok && sel.Sel.Name == "Sleep" {
				if id, ok := sel.X.(*ast.Ident); ok && id.Name == "time" {
					found = append(found, f.At(sel)+": time.Sleep in a test; wait for the thing itself")
				}
			}
			return true
		})
	}
	return found
}

// FuzzSeeds finds fuzz targets that start from nothing: no f.Add, no call that is handed f, no files in testdata/fuzz.
func FuzzSeeds(t *Tree) []string {
	var found []string
	for _, f := range t.Go {
		if !f.Test {
			continue
		}
		for _, decl := range f.Syntax.Decls {
			d, ok := decl.(*ast.FuncDecl)
			if !ok || d.Recv != nil || !strings.HasPrefix(d.Name.Name, "Fuzz") || !takesF(d) {
				continue
			}
			if !seeded(d) && !t.hasDir(path.Join(f.Dir, "testdata/fuzz", d.Name.Name)) {
				found = append(found, fmt.Sprintf("%s: %s has no seeds", f.At(d), d.Name.Name))
			}
		}
	}
	return found
}

func takesF(d *ast.FuncDecl) bool {
	if len(d.Type.Params.List) != 1 || len(d.Type.Params.List[0].Names) != 1 {
		return false
	}
	star, ok := d.Type.Params.List[0].Type.(*ast.StarExpr)
	if !ok {
		return false
	}
	sel, ok := star.X.(*ast.SelectorExpr)
	return ok && sel.Sel.Name == "F"
}

func seeded(d *ast.FuncDecl) bool {
	param, found := d.Type.Params.List[0].Names[0].Name, false
	isF := func(e ast.Expr) bool {
		id, ok := e.(*ast.Ident)
		return ok && id.Name == param
	}
	ast.Inspect(d.Body, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		if sel, ok := call.Fun.(*ast.SelectorExpr); ok && isF(sel.X) && sel.Sel.Name == "Add" {
			found = true
		}
		for _, arg := range call.Args {
			found = found || isF(arg)
		}
		return !found
	})
	return found
}

func (t *Tree) hasDir(dir string) bool {
	for name := range t.Files {
		if strings.HasPrefix(name, dir+"/") {
			return true
		}
	}
	return false
}
