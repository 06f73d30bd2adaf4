package arch

import (
	"go/ast"
	"strings"
)

// Spellings finds programs that decode base64 without Strict: such a decoder passes over the bits that the last character has to spare, so
// that one signature, one proof or one hash is taken in several spellings. Tests read what programs have written, as laxly as they like.
func Spellings(t *Tree) []string {
	var found []string
	for _, f := range t.Go {
		if f.Test || strings.HasPrefix(f.Dir, "test/") {
			continue
		}
		ast.Inspect(f.Syntax, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if ok && lax(call) {
				found = append(found, f.At(call)+": base64 is decoded without Strict, which takes several spellings of one text")
			}
			return true
		})
	}
	return found
}

// lax says whether a call decodes with one of base64's encodings as it is.
func lax(call *ast.CallExpr) bool {
	fun, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	switch fun.Sel.Name {
	case "Decode", "DecodeString", "AppendDecode":
		return ofBase64(fun.X)
	case "NewDecoder":
		id, ok := fun.X.(*ast.Ident)
		return ok && id.Name == "base64" && len(call.Args) > 0 && ofBase64(call.Args[0])
	}
	return false
}

// ofBase64 says whether an expression is base64.SOMETHING.
func ofBase64(e ast.Expr) bool {
	sel, ok := e.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	id, ok := sel.X.(*ast.Ident)
	return ok && id.Name == "base64"
}
