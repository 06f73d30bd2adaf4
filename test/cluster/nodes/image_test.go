//go:build unix

package nodes_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lanyard-k8s/lanyard/test/cluster/nodes"
)

// TestImage needs neither root nor a cluster.
func TestImage(t *testing.T) {
	t.Setenv("LANYARD_CACHE", t.TempDir())
	program := filepath.Join(t.TempDir(), "program")
	image := func(content, tag string) nodes.Archive {
		t.Helper()
		if err := os.WriteFile(program, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		a, err := nodes.Image(t.Context(), "lanyard.test/some/thing", tag, "/program", program)
		if err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(a.Path); err != nil || info.Size() < 1024 {
			t.Errorf("the archive %s: %v", a.Path, err)
		}
		return a
	}
	first := image("one", "1")
	if first.Ref() != "lanyard.test/some/thing:1" {
		t.Errorf("the image is called %s", first.Ref())
	}
	written, err := os.Stat(first.Path)
	if err != nil {
		t.Fatal(err)
	}
	same := image("one", "1")
	if again, err := os.Stat(same.Path); err != nil || same != first || !os.SameFile(again, written) { // each writing makes a new file
		t.Errorf("the same image was written again: %v, %v", same, err)
	}
	for name, other := range map[string]nodes.Archive{"another program": image("two", "1"), "another tag": image("one", "2")} {
		if other.Path == first.Path {
			t.Errorf("%s has the first image's archive", name)
		}
	}
	if _, err := nodes.Image(t.Context(), "lanyard.test/none", "1", "/other", program); err == nil || !strings.Contains(err.Error(), "none of the programs") {
		t.Errorf("an entrypoint that is none of the programs: %v", err)
	}
}
