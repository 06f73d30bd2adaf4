package dockerarchive

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// program writes a file that stands for a program and returns its path.
func program(t *testing.T, name string) string {
	t.Helper()
	p := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(p, []byte("program "+name), 0o700); err != nil {
		t.Fatal(err)
	}
	return p
}

// untar reads a tar into its headers and contents.
func untar(t *testing.T, b []byte) (hs map[string]*tar.Header, data map[string][]byte) {
	t.Helper()
	hs, data = map[string]*tar.Header{}, map[string][]byte{}
	for tr := tar.NewReader(bytes.NewReader(b)); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return hs, data
		}
		if err != nil {
			t.Fatal(err)
		}
		hs[h.Name] = h
		if data[h.Name], err = io.ReadAll(tr); err != nil {
			t.Fatal(err)
		}
	}
}

func TestTheArchiveHoldsWhatALoaderReads(t *testing.T) {
	t.Parallel()
	img := Image{Arch: "arm64", Tag: "lanyard:dev", Entrypoint: "/webhook", Programs: []string{program(t, "webhook"), program(t, "lanyard")}}
	var b bytes.Buffer
	if err := img.Write(&b); err != nil {
		t.Fatal(err)
	}
	_, files := untar(t, b.Bytes())
	var mf []manifest
	if err := json.Unmarshal(files["manifest.json"], &mf); err != nil || len(mf) != 1 || len(mf[0].Layers) != 1 {
		t.Fatalf("manifest %s: %v", files["manifest.json"], err)
	}
	layer := files[mf[0].Layers[0]]
	want := config{
		Architecture: "arm64", OS: "linux",
		Config: runConfig{User: "65532:65532", Entrypoint: []string{"/webhook"}, WorkingDir: "/"},
		RootFS: rootFS{Type: "layers", DiffIDs: []string{"sha256:" + digest(layer)}},
	}
	var got config
	if err := json.Unmarshal(files[mf[0].Config], &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("configuration (-want +got):\n%s", diff)
	}
	headers, contents := untar(t, layer)
	for _, name := range []string{"webhook", "lanyard"} {
		h := headers[name]
		if h == nil || h.Mode != 0o555 || h.Uid != 0 || !h.ModTime.IsZero() && h.ModTime.Unix() != 0 || string(contents[name]) != "program "+name {
			t.Errorf("%s in the layer: %+v %q", name, h, contents[name])
		}
	}
}

func TestTheSameProgramsGiveTheSameBytes(t *testing.T) {
	t.Parallel()
	webhook, lanyard := program(t, "webhook"), program(t, "lanyard")
	var first, second bytes.Buffer
	for w, programs := range map[*bytes.Buffer][]string{&first: {webhook, lanyard}, &second: {lanyard, webhook}} {
		if err := (Image{Arch: "amd64", Tag: "t:1", Entrypoint: "/webhook", Programs: programs}).Write(w); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Error("two archives of the same programs differ")
	}
}

func TestWhatWouldNotRunIsRefused(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		img  Image
		want string
	}{
		"no tag":                {Image{}, "a tag is needed"},
		"no programs":           {Image{Tag: "t"}, "no programs"},
		"an unknown entrypoint": {Image{Tag: "t", Entrypoint: "/b", Programs: []string{"a"}}, "none of the programs"},
		"a missing program":     {Image{Tag: "t", Entrypoint: "/a", Programs: []string{"a"}}, "read program"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := tc.img.Write(io.Discard); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error = %v, want one about %q", err, tc.want)
			}
		})
	}
}
