//go:build unix

package chart

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// The default profile's golden file holds every object. The others' hold what differs from it, so that a change of the
// chart shows once, and a profile shows what it changes.

func TestGoldens(t *testing.T) {
	t.Parallel()
	base := byName(t, render(t, "default"))
	seen := map[string]bool{}
	for name := range profiles(t) {
		seen[name+".txtar"] = true
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			against := base
			if name == "default" {
				against = nil
			}
			checkGolden(t, filepath.Join("testdata/golden", name+".txtar"), difference(against, byName(t, render(t, name))))
		})
	}
	files, err := os.ReadDir("testdata/golden")
	if err != nil && !*update {
		t.Fatal(err)
	}
	for _, f := range files {
		if !seen[f.Name()] {
			t.Errorf("testdata/golden/%s belongs to no profile", f.Name())
		}
	}
}

func TestTwoRendersAreEqual(t *testing.T) {
	t.Parallel()
	for name, file := range profiles(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := findHelm(t)
			first, err := h.Template(t.Context(), "-f", file)
			if err != nil {
				t.Fatal(err)
			}
			second, err := h.Template(t.Context(), "-f", file)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(first, second) {
				t.Errorf("two renders differ (-first +second):\n%s", cmp.Diff(string(first), string(second)))
			}
		})
	}
}

func TestLint(t *testing.T) {
	t.Parallel()
	for name, file := range profiles(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := findHelm(t).Lint(t.Context(), "-f", file); err != nil {
				t.Error(err)
			}
		})
	}
}

// named is a rendered object as text, under a name that is unique in a rendering.
type named struct{ name, text string }

func byName(t *testing.T, objects []*unstructured.Unstructured) []named {
	t.Helper()
	var all []named
	for _, o := range objects {
		text, err := yaml.Marshal(o.Object)
		if err != nil {
			t.Fatal(err)
		}
		name := o.GetName()
		if ns := o.GetNamespace(); ns != "" && ns != Namespace {
			name = ns + "/" + name
		}
		all = append(all, named{name: fmt.Sprintf("%s/%s.yaml", strings.ToLower(o.GetKind()), name), text: string(text)})
	}
	return all
}

// difference lists the objects that base lacks or has otherwise, and the names of those that are gone.
func difference(base, objects []named) *txtar.Archive {
	archive := &txtar.Archive{}
	before, now := map[string]string{}, map[string]bool{}
	for _, o := range base {
		before[o.name] = o.text
	}
	for _, o := range objects {
		now[o.name] = true
		if before[o.name] != o.text {
			archive.Files = append(archive.Files, txtar.File{Name: o.name, Data: []byte(o.text)})
		}
	}
	var gone strings.Builder
	for _, o := range base {
		if !now[o.name] {
			fmt.Fprintf(&gone, "not rendered: %s\n", o.name)
		}
	}
	archive.Comment = []byte(gone.String())
	return archive
}

func checkGolden(t *testing.T, path string, archive *txtar.Archive) {
	t.Helper()
	got := txtar.Format(archive)
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (go test ./test/chart -update writes it)", err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got; -update writes it):\n%s", path, diff)
	}
}
