// Package dockerarchive writes a docker-archive: one tar that `docker load`, `ctr image import` and `skopeo` read. It packs
// static programs into a single layer over nothing (FROM scratch), to be run as uid 65532. No Docker daemon, no base image,
// no clock: the same programs give the same bytes.
package dockerarchive

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

// Image is what goes into the archive.
type Image struct {
	// Arch is the programs' architecture, in Go's words.
	Arch string
	// Tag is the image's name and tag, as in lanyard-k8s/lanyard:dev.
	Tag string
	// Entrypoint is the program to run, as in /webhook.
	Entrypoint string
	// Programs are files on this machine; each lands in / under its own name.
	Programs []string
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
func (img Image) check() error {
	switch {
	case img.Tag == "":
		return errors.New("a tag is needed, as in lanyard:dev")
	case len(img.Programs) == 0:
		return errors.New("no programs given")
	case !slices.ContainsFunc(img.Programs, func(p string) bool { return "/"+filepath.Base(p) == img.Entrypoint }):
		return fmt.Errorf("entrypoint %q is none of the programs", img.Entrypoint)
	}
	return nil
}

// WriteFile writes the archive to a file, under another name first, so that an interrupted run leaves no half an image.
func (img Image) WriteFile(name string) error {
	if name == "" {
		return errors.New("a file to write to is needed")
	}
	var b bytes.Buffer
	if err := img.Write(&b); err != nil {
		return err
	}
	tmp := name + ".tmp"
	if err := os.WriteFile(tmp, b.Bytes(), 0o644); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return os.Rename(tmp, name)
}

// Write writes the docker-archive: layer, configuration, manifest.
func (img Image) Write(w io.Writer) error {
	if err := img.check(); err != nil {
		return err
	}
	layer, err := img.layer()
	if err != nil {
		return err
	}
	cfg, err := json.Marshal(config{
		Architecture: img.Arch,
		Config:       runConfig{User: user, Entrypoint: []string{img.Entrypoint}, WorkingDir: "/"},
		OS:           "linux",
		RootFS:       rootFS{Type: "layers", DiffIDs: []string{"sha256:" + digest(layer)}},
	})
	if err != nil {
		return fmt.Errorf("write the image's configuration: %w", err)
	}
	layerName, cfgName := digest(layer)+".tar", digest(cfg)+".json"
	mf, err := json.Marshal([]manifest{{Config: cfgName, RepoTags: []string{img.Tag}, Layers: []string{layerName}}})
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
func (img Image) layer() ([]byte, error) {
	var b bytes.Buffer
	tw := tar.NewWriter(&b)
	programs := slices.SortedFunc(slices.Values(img.Programs), func(a, b string) int {
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
