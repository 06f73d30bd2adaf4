//go:build unix

package program_test

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lanyard-k8s/lanyard/test/cluster/program"
)

// TestWhatNobodyUsesIsRemoved ages two programs of the cache, of which one is then asked for again.
func TestWhatNobodyUsesIsRemoved(t *testing.T) {
	t.Setenv("LANYARD_CACHE", t.TempDir())
	source := program.Source{Name: "hello", Dir: module(t, `package main; func main() { print("hello") }`), Inputs: []string{"go.mod", "main.go"}}
	first := build(t, source)
	write(t, source.Dir, "main.go", `package main; func main() { print("goodbye") }`)
	second := build(t, source)
	for _, path := range []string{first, second} {
		old := time.Now().Add(-4 * 24 * time.Hour)
		if err := os.Chtimes(filepath.Dir(path), old, old); err != nil {
			t.Fatal(err)
		}
	}
	if again := build(t, source); again != second {
		t.Errorf("built again as %s", again)
	}
	if run(t, second) != "goodbye" {
		t.Error("what is asked for is gone")
	}
	if _, err := os.Stat(filepath.Dir(first)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what nobody has used for four days is there: %v", err)
	}
}

func TestBuild(t *testing.T) {
	t.Setenv("LANYARD_CACHE", t.TempDir())
	source := program.Source{
		Name: "hello", Dir: module(t, `package main; func main() { print("hello") }`), Inputs: []string{"go.mod", "main.go"},
	}
	first := build(t, source)
	if got := run(t, first); got != "hello" {
		t.Errorf("the program says %q", got)
	}

	t.Run("the same source is not built again", func(t *testing.T) {
		before := stat(t, first)
		if again := build(t, source); again != first || !stat(t, again).ModTime().Equal(before.ModTime()) {
			t.Errorf("built again as %s", again)
		}
	})
	t.Run("changed source is another program beside the first", func(t *testing.T) {
		write(t, source.Dir, "main.go", `package main; func main() { print("goodbye") }`)
		changed := build(t, source)
		if changed == first || run(t, changed) != "goodbye" || run(t, first) != "hello" {
			t.Errorf("%s and %s", first, changed)
		}
	})
	t.Run("other linker flags are another program", func(t *testing.T) {
		stripped := source
		stripped.LinkFlags = "-s -w"
		if build(t, stripped) == build(t, source) {
			t.Error("one program for both")
		}
	})
	t.Run("a static program is built as the released ones are, and is another program", func(t *testing.T) {
		static := source
		static.Static, static.Trimpath = true, true
		path := build(t, static)
		info, err := buildinfo.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		settings := map[string]string{}
		for _, s := range info.Settings {
			settings[s.Key] = s.Value
		}
		if path == build(t, source) || settings["CGO_ENABLED"] != "0" || settings["-trimpath"] != "true" {
			t.Errorf("%s is built with %v", path, settings)
		}
	})
	t.Run("without inputs the program follows its source in place", func(t *testing.T) {
		live := source
		live.Inputs = nil
		path := build(t, live)
		write(t, live.Dir, "main.go", `package main; func main() { print("now") }`)
		if again := build(t, live); again != path || run(t, again) != "now" {
			t.Errorf("%s says %q", again, run(t, again))
		}
	})
}

func TestBuildAtOnce(t *testing.T) {
	t.Setenv("LANYARD_CACHE", t.TempDir())
	source := program.Source{Name: "hello", Dir: module(t, `package main; func main() { print("hello") }`), Inputs: []string{"main.go"}}
	paths, errs := make([]string, 4), make([]error, 4)
	var all sync.WaitGroup
	for i := range paths {
		all.Go(func() { paths[i], errs[i] = program.Build(t.Context(), nil, source) })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Dir(paths[0]) + "/*")
	if err != nil {
		t.Fatal(err)
	}
	for i := range files {
		files[i] = filepath.Base(files[i])
	}
	if diff := cmp.Diff([]string{"hello", "lock"}, files); diff != "" {
		t.Errorf("files in the cache (-want +got):\n%s", diff)
	}
}

func TestBuildTellsWhatIsMissing(t *testing.T) {
	t.Run("no Go toolchain", func(t *testing.T) {
		t.Setenv("LANYARD_CACHE", t.TempDir())
		t.Setenv("PATH", t.TempDir())
		_, err := program.Build(t.Context(), nil, program.Source{Name: "hello", Dir: t.TempDir()})
		if !errors.Is(err, program.ErrNoGo) {
			t.Errorf("got %v, want %v", err, program.ErrNoGo)
		}
	})
	t.Run("no module proxy", func(t *testing.T) {
		t.Setenv("LANYARD_CACHE", t.TempDir())
		t.Setenv("GOMODCACHE", t.TempDir())
		t.Setenv("GOPROXY", "off")
		dir := module(t, "package main\nimport _ \"example.com/missing\"\nfunc main() {}")
		write(t, dir, "go.mod", "module hello\n\ngo 1.26.0\n\nrequire example.com/missing v1.0.0\n")
		write(t, dir, "go.sum", "example.com/missing v1.0.0 h1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n"+
			"example.com/missing v1.0.0/go.mod h1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n")
		_, err := program.Build(t.Context(), nil, program.Source{Name: "hello", Dir: dir})
		if !errors.Is(err, program.ErrNoModules) {
			t.Errorf("got %v, want %v", err, program.ErrNoModules)
		}
	})
	t.Run("source that does not compile", func(t *testing.T) {
		t.Setenv("LANYARD_CACHE", t.TempDir())
		dir := module(t, "package main\nfunc main() { undefinedThing() }")
		_, err := program.Build(t.Context(), nil, program.Source{Name: "hello", Dir: dir})
		if err == nil || !strings.Contains(err.Error(), "undefined: undefinedThing") {
			t.Errorf("got %v, want the compiler's complaint", err)
		}
	})
	t.Run("a build that is given up", func(t *testing.T) {
		t.Setenv("LANYARD_CACHE", t.TempDir())
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := program.Build(ctx, nil, program.Source{Name: "hello", Dir: module(t, "package main; func main() {}")})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want %v", err, context.Canceled)
		}
	})
}

func TestRequired(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "go.mod", "module x\n\nrequire (\n\tk8s.io/kubernetes v1.37.2\n\tk8s.io/api v0.37.2 // indirect\n)\n")
	for path, want := range map[string]string{"k8s.io/kubernetes": "v1.37.2", "k8s.io/api": "v0.37.2"} {
		if got, err := program.Required(filepath.Join(dir, "go.mod"), path); err != nil || got != want {
			t.Errorf("Required(%s) = %q, %v, want %q", path, got, err, want)
		}
	}
	if got, err := program.Required(filepath.Join(dir, "go.mod"), "k8s.io/kube"); err == nil {
		t.Errorf("a module that is not required has version %q", got)
	}
}

func module(t *testing.T, main string) string {
	t.Helper()
	dir := t.TempDir()
	write(t, dir, "go.mod", "module hello\n\ngo 1.26.0\n")
	write(t, dir, "main.go", main)
	return dir
}

func write(t *testing.T, dir, name, content string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func build(t *testing.T, s program.Source) string {
	t.Helper()
	path, err := program.Build(t.Context(), t.Output(), s)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func run(t *testing.T, path string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), path).CombinedOutput()
	if err != nil {
		t.Fatal(err)
	}
	return string(bytes.TrimSpace(out))
}

func stat(t *testing.T, path string) os.FileInfo {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info
}
