// Package arch holds the rules of the house as code: which room may import which, how long a file may be, what must be
// documented and tested. Each rule is a function from a tree of files to findings; the tests run every rule over this
// repository, and over a planted violation in testdata, so that a rule that finds nothing is known to look.
package arch

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Module is the import path that every room's import path starts with.
const Module = "github.com/lanyard-k8s/lanyard"

// Tree is a repository's files by slash-separated path, and the Go files among them, parsed.
type Tree struct {
	Files map[string][]byte
	Go    []*GoFile
}

// GoFile is one parsed Go file.
type GoFile struct {
	Path   string // from the root, such as "mutate/pod.go"
	Dir    string // its package's directory, such as "mutate"
	Test   bool   // its name ends in _test.go
	Nested bool   // it belongs to a module of its own below the root
	Lines  int
	Syntax *ast.File
	Pos    *token.FileSet
}

// At says where a node stands, for findings.
func (f *GoFile) At(n ast.Node) string {
	return fmt.Sprintf("%s:%d", f.Path, f.Pos.Position(n.Pos()).Line)
}

// Generated says whether the file bears the mark of generated code.
func (f *GoFile) Generated() bool { return ast.IsGenerated(f.Syntax) }

// Imports are the file's import paths.
func (f *GoFile) Imports() []string {
	var paths []string
	for _, spec := range f.Syntax.Imports {
		paths = append(paths, strings.Trim(spec.Path.Value, `"`))
	}
	return paths
}

// New parses the Go files among the given ones, testdata left aside.
func New(files map[string][]byte) (*Tree, error) {
	t := &Tree{Files: files}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if path.Ext(name) != ".go" || strings.Contains("/"+name, "/testdata/") {
			continue
		}
		fset := token.NewFileSet()
		syntax, err := parser.ParseFile(fset, name, files[name], parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, fmt.Errorf("parse %s: %w", name, err)
		}
		t.Go = append(t.Go, &GoFile{
			Path: name, Dir: path.Dir(name), Test: strings.HasSuffix(name, "_test.go"), Nested: t.nested(path.Dir(name)),
			Lines: strings.Count(string(files[name]), "\n"), Syntax: syntax, Pos: fset,
		})
	}
	return t, nil
}

// nested says whether a go.mod other than the root's governs a directory.
func (t *Tree) nested(dir string) bool {
	for ; dir != "."; dir = path.Dir(dir) {
		if _, ok := t.Files[dir+"/go.mod"]; ok {
			return true
		}
	}
	return false
}

// Load reads what the repository tracks, or every file outside of .git, bin and dist where git cannot tell.
func Load(root string) (*Tree, error) {
	names, err := tracked(root)
	if err != nil {
		names, err = walk(root)
	}
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	for _, name := range names {
		b, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
		if os.IsNotExist(err) {
			continue // deleted and not yet committed
		}
		if err != nil {
			return nil, fmt.Errorf("read the tree: %w", err)
		}
		files[name] = b
	}
	return New(files)
}

func tracked(root string) ([]string, error) {
	out, err := exec.Command("git", "-C", root, "ls-files", "-z").Output()
	if err != nil {
		return nil, fmt.Errorf("list tracked files: %w", err)
	}
	return strings.Split(strings.TrimRight(string(out), "\x00"), "\x00"), nil
}

func walk(root string) ([]string, error) {
	var names []string
	err := fs.WalkDir(os.DirFS(root), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (name == ".git" || name == "bin" || name == "dist"):
			return fs.SkipDir
		case d.Type().IsRegular():
			names = append(names, name)
		}
		return nil
	})
	return names, err
}
