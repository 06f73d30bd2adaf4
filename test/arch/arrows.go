package arch

import (
	"fmt"
	"go/ast"
	"slices"
	"strings"
)

// Arrows finds imports that go against the arrows: programs to front desks to pure rooms to words. Front desks never
// import each other; a client never imports a server's room; nothing imports a tool or, but for tests and the demo, a test room.
func Arrows(t *Tree) []string {
	var found []string
	for _, f := range t.Go {
		if f.Nested {
			continue
		}
		room, k, ok := roomOf(f.Dir)
		if !ok {
			found = append(found, fmt.Sprintf("%s: no room of the house; see rooms.go", f.Path))
			continue
		}
		for _, spec := range f.Imports() {
			if why := wrongArrow(f, room, k, spec); why != "" {
				found = append(found, fmt.Sprintf("%s: imports %s: %s", f.Path, spec, why))
			}
		}
		if k == pure && !f.Test {
			found = append(found, clockReads(f)...)
		}
	}
	return found
}

// wrongArrow says what is wrong with an import, or nothing.
func wrongArrow(f *GoFile, room string, k kind, spec string) string {
	dir, ours := strings.CutPrefix(spec, Module+"/")
	if !ours {
		if k == pure && !f.Test && !pureImports(spec) {
			return "a pure room imports no client, clock, logger, context or I/O"
		}
		return ""
	}
	otherRoom, other, ok := roomOf(dir)
	switch {
	case !ok:
		return "no room of the house"
	case other == tool && otherRoom != room:
		return "nothing imports a tool"
	case f.Test && other == trial:
		return ""
	case dir == "test/cluster" || strings.HasPrefix(dir, "test/cluster/"):
		if k == trial || k == show || f.Dir == "cmd/lanyard" || strings.HasPrefix(f.Dir, "cmd/lanyard/") {
			return ""
		}
		return "only tests and the demo start a cluster"
	case room == otherRoom && (k != door || programOf(f.Dir) == programOf(dir)):
		return ""
	case f.Test && k != sdk:
		return "" // a room's tests may look at any other room
	case !slices.Contains(mayImport(k), other):
		return fmt.Sprintf("a %s may not import a %s", k, other)
	}
	return ""
}

// clockReads finds the calls by which package time reads the clock or waits. A pure room is told the time.
func clockReads(f *GoFile) []string {
	var found []string
	clock := []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTicker", "NewTimer"}
	ast.Inspect(f.Syntax, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok || !slices.Contains(clock, sel.Sel.Name) {
			return true
		}
		if id, ok := sel.X.(*ast.Ident); ok && id.Name == "time" {
			found = append(found, f.At(sel)+": time."+sel.Sel.Name+": a pure room is told the time")
		}
		return true
	})
	return found
}

// programOf is the program that a directory below cmd belongs to.
func programOf(dir string) string {
	parts := strings.SplitN(dir, "/", 3)
	return strings.Join(parts[:min(2, len(parts))], "/")
}
