package main

import (
	"archive/tar"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
)

// user is the uid and gid that the programs run as: "nonroot" in the images that have names for it.
const user = "65532:65532"

// image is what goes into the archive.
type image struct {
	arch, tag, entrypoint string
	programs              []string // files on this machine; each lands in / under its own name
}

// The parts of Docker's image format v1.2 that loaders read.
type (
	config struct {
		Architecture string    `json:"architecture"`
		Config       runConfig `json:"config"`
		OS           string    `json:"os"`
		RootFS       rootFS    `json:"rootfs"`
	}
	runConfig struct {
		User       string   `json:"User"`
		Entrypoint []string `json:"Entrypoint"`
		WorkingDir string   `json:"WorkingDir"`
	}
	rootFS struct {
		Type    string   `json:"type"`
		DiffIDs []string `json:"diff_ids"`
	}
	manifest struct {
		Config   string   `json:"Config"`
		RepoTags []string `json:"RepoTags"`
		Layers   []string `json:"Layers"`
	}
)

// check refuses what would load and then not run.
func (img image) check() error {
	switch {
	case img.tag == "":
		return errors.New("-tag is needed, as in -tag lanyard:dev")
	case len(img.programs) == 0:
		return errors.New("no programs given")
	case !slices.ContainsFunc(img.programs, func(p string) bool { return "/"+filepath.Base(p) == img.entrypoint }):
		return fmt.Errorf("-entrypoint %q is none of the programs", img.entrypoint)
	}
	return nil
}

// writeFile writes the archive under another name first, so that an interrupted run leaves no half an image.
func writeFile(name string, img image) error {
	if name == "" {
		return errors.New("-out is needed")
	}
	var b bytes.Buffer
	if err := img.write(&b); err != nil {
		return err
	}
	tmp := name + ".tmp"
	if err := os.WriteFile(tmp, b.Bytes(), 0o644); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return os.Rename(tmp, name)
}

// write writes the docker-archive: layer, configuration, manifest.
func (img image) write(w io.Writer) error {
	if err := img.check(); err != nil {
		return err
	}
	layer, err := img.layer()
	if err != nil {
		return err
	}
	cfg, err := json.Marshal(config{
		Architecture: img.arch,
		Config:       runConfig{User: user, Entrypoint: []string{img.entrypoint}, WorkingDir: "/"},
		OS:           "linux",
		RootFS:       rootFS{Type: "layers", DiffIDs: []string{"sha256:" + digest(layer)}},
	})
	if err != nil {
		return fmt.Errorf("write the image's configuration: %w", err)
	}
	layerName, cfgName := digest(layer)+".tar", digest(cfg)+".json"
	mf, err := json.Marshal([]manifest{{Config: cfgName, RepoTags: []string{img.tag}, Layers: []string{layerName}}})
	if err != nil {
		return fmt.Errorf("write the image's manifest: %w", err)
	}
	tw := tar.NewWriter(w)
	for _, f := range []struct {
		name string
		data []byte
	}{{layerName, layer}, {cfgName, cfg}, {"manifest.json", mf}} {
		if err := addFile(tw, f.name, 0o644, f.data); err != nil {
			return err
		}
	}
	return tw.Close()
}

// layer packs the programs, sorted by name, owned by root and writable by nobody.
func (img image) layer() ([]byte, error) {
	var b bytes.Buffer
	tw := tar.NewWriter(&b)
	programs := slices.SortedFunc(slices.Values(img.programs), func(a, b string) int {
		return cmp.Compare(filepath.Base(a), filepath.Base(b))
	})
	for _, p := range programs {
		data, err := os.ReadFile(p)
		if err != nil {
			return nil, fmt.Errorf("read program: %w", err)
		}
		if err := addFile(tw, filepath.Base(p), 0o555, data); err != nil {
			return nil, err
		}
	}
	if err := tw.Close(); err != nil {
		return nil, fmt.Errorf("close layer: %w", err)
	}
	return b.Bytes(), nil
}

// addFile adds a file without owner names or times, which would differ from machine to machine.
func addFile(tw *tar.Writer, name string, mode int64, data []byte) error {
	h := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: int64(len(data)), Format: tar.FormatUSTAR}
	if err := tw.WriteHeader(h); err != nil {
		return fmt.Errorf("add %s: %w", name, err)
	}
	if _, err := tw.Write(data); err != nil {
		return fmt.Errorf("add %s: %w", name, err)
	}
	return nil
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
