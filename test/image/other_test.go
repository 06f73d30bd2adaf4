package image

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lanyard-k8s/lanyard/internal/dockerarchive"
)

// TestTheOtherArchitecturesImage builds the programs as `make image` does for the architecture that these tests do not run on, and looks
// into the image that they are packed into. Every other test builds for its own machine alone, so that a file of that architecture which
// does not compile, or a program of this one in the other's image, was found by whoever started it there.
func TestTheOtherArchitecturesImage(t *testing.T) {
	t.Parallel()
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	programs := words(t, makefile, "PROGRAMS")
	machines := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}
	for _, arch := range words(t, makefile, "ARCHS") {
		if _, known := machines[arch]; !known {
			t.Errorf("make image builds for %s, which this test does not know", arch)
		}
		if arch == runtime.GOARCH {
			continue
		}
		archive := filepath.Join(t.TempDir(), "lanyard-"+arch+".tar")
		img := dockerarchive.Image{Arch: arch, Tag: "lanyard-k8s/lanyard:test", Entrypoint: "/" + programs[0], Programs: build(t, arch, programs)}
		if err := img.WriteFile(archive); err != nil {
			t.Fatal(err)
		}
		saidArch, files := unpack(t, archive)
		if saidArch != arch {
			t.Errorf("the image of %s says that it is for %q", arch, saidArch)
		}
		var names []string
		for name, content := range files {
			names = append(names, name)
			f, err := elf.NewFile(bytes.NewReader(content))
			if err != nil {
				t.Errorf("%s is no program: %v", name, err)
				continue
			}
			if f.Machine != machines[arch] {
				t.Errorf("%s in the image of %s is for %s", name, arch, f.Machine)
			}
			if libraries, _ := f.ImportedLibraries(); len(libraries) > 0 || f.Section(".interp") != nil {
				t.Errorf("%s is not static: it wants %v", name, libraries)
			}
		}
		slices.Sort(names)
		slices.Sort(programs)
		if diff := cmp.Diff(programs, names); diff != "" {
			t.Errorf("programs in the image of %s (-want +got):\n%s", arch, diff)
		}
	}
}

// words are those of a variable of the Makefile.
func words(t *testing.T, makefile []byte, name string) []string {
	t.Helper()
	line := regexp.MustCompile(`(?m)^` + name + `\s*[:?]?=(.*)$`).FindSubmatch(makefile)
	if line == nil || len(strings.Fields(string(line[1]))) == 0 {
		t.Fatalf("the Makefile does not set %s", name)
	}
	return strings.Fields(string(line[1]))
}

// build builds the programs in one go, with the flags of `make image`.
func build(t *testing.T, arch string, programs []string) (paths []string) {
	t.Helper()
	dir := t.TempDir()
	args := []string{"build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w -buildid=", "-o", dir + "/"}
	for _, p := range programs {
		args, paths = append(args, "./cmd/"+p), append(paths, filepath.Join(dir, p))
	}
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = "../.."
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch, "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("building for %s: %v\n%s", arch, err, out)
	}
	return paths
}

// unpack reads an archive as a loader does: the architecture that its configuration names, and the files of its one layer.
func unpack(t *testing.T, path string) (arch string, programs map[string][]byte) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	outer := files(t, raw)
	var manifest []struct {
		Config string
		Layers []string
	}
	if err := json.Unmarshal(outer["manifest.json"], &manifest); err != nil || len(manifest) != 1 || len(manifest[0].Layers) != 1 {
		t.Fatalf("the manifest is %s: %v", outer["manifest.json"], err)
	}
	var config struct{ Architecture string }
	if err := json.Unmarshal(outer[manifest[0].Config], &config); err != nil {
		t.Fatal(err)
	}
	return config.Architecture, files(t, outer[manifest[0].Layers[0]])
}

func files(t *testing.T, archive []byte) map[string][]byte {
	t.Helper()
	found := map[string][]byte{}
	for r := tar.NewReader(bytes.NewReader(archive)); ; {
		h, err := r.Next()
		if err == io.EOF {
			return found
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Typeflag != tar.TypeReg {
			continue
		}
		if found[strings.TrimPrefix(h.Name, "./")], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
}
