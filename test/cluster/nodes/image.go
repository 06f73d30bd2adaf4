//go:build unix

package nodes

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"

	"github.com/lanyard-k8s/lanyard/internal/dockerarchive"
	"github.com/lanyard-k8s/lanyard/test/cluster/program"
)

// Archive is an image in a file that Load takes: a docker-archive tar.
type Archive struct {
	// Path is the file.
	Path string
	// Repository and Tag are the image's name, as in lanyard-k8s/lanyard and dev.
	Repository, Tag string
}

// Ref is the image's name as pods have it.
func (a Archive) Ref() string { return a.Repository + ":" + a.Tag }

// Image packs static programs into an image; each lands in / under its own name, and entrypoint is one of them, as in
// /webhook. The archive lies in the cache, under a name that follows from what is in it, and is written only once.
func Image(ctx context.Context, repository, tag, entrypoint string, programs ...string) (Archive, error) {
	sum, err := digest(repository, tag, entrypoint, programs)
	if err != nil {
		return Archive{}, fmt.Errorf("packing the image %s:%s: %w", repository, tag, err)
	}
	cache, err := program.Cache()
	if err != nil {
		return Archive{}, err
	}
	a := Archive{
		Path:       filepath.Join(cache, "images", strings.ReplaceAll(repository, "/", "_")+"-"+sum[:16]+".tar"),
		Repository: repository, Tag: tag,
	}
	if _, err := os.Stat(a.Path); err == nil || ctx.Err() != nil {
		program.Keep(a.Path)
		return a, ctx.Err()
	}
	if err := os.MkdirAll(filepath.Dir(a.Path), 0o755); err != nil {
		return Archive{}, err
	}
	img := dockerarchive.Image{Arch: runtime.GOARCH, Tag: a.Ref(), Entrypoint: entrypoint, Programs: programs}
	partial := fmt.Sprintf("%s.%d", a.Path, os.Getpid())
	if err := img.WriteFile(partial); err != nil {
		return Archive{}, errors.Join(fmt.Errorf("packing the image %s: %w", a.Ref(), err), os.RemoveAll(partial))
	}
	return a, os.Rename(partial, a.Path)
}

// digest names an image by what is in it.
func digest(repository, tag, entrypoint string, programs []string) (string, error) {
	h := sha256.New()
	fmt.Fprintf(h, "%q %q %q %q\n", runtime.GOARCH, repository, tag, entrypoint)
	for _, path := range programs {
		f, err := os.Open(path)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(h, "%q\n", filepath.Base(path))
		_, err = io.Copy(h, f)
		if err := errors.Join(err, f.Close()); err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// ProbeImage builds the image of program probe, by which tests see what a pod sees.
func ProbeImage(ctx context.Context, out io.Writer) (Archive, error) {
	path, err := BuildProbe(ctx, out)
	if err != nil {
		return Archive{}, err
	}
	return Image(ctx, "lanyard.test/probe", "1", "/probe", path)
}

// BuildProbe builds program probe and returns its path.
func BuildProbe(ctx context.Context, out io.Writer) (string, error) {
	tree, err := program.Tree()
	if err != nil {
		return "", err
	}
	return program.Build(ctx, out, program.Source{
		Name: "probe", Dir: tree, Package: "./test/cluster/nodes/probe", Static: true, LinkFlags: "-s -w",
		Inputs: []string{"test/cluster/nodes/probe"},
	})
}

// LanyardImage builds the image that `make image` builds, from the source tree as it stands: the programs that the Makefile
// names. Its tag follows from their contents, so that an upgrade to changed programs changes the pods.
func LanyardImage(ctx context.Context, out io.Writer) (Archive, error) {
	tree, err := program.Tree()
	if err != nil {
		return Archive{}, err
	}
	names, err := released(filepath.Join(tree, "Makefile"))
	if err != nil {
		return Archive{}, err
	}
	var paths []string
	for _, name := range names {
		path, err := program.Build(ctx, out, program.Source{
			Name: name, Dir: tree, Package: "./cmd/" + name, Static: true, Trimpath: true, LinkFlags: "-s -w -buildid=",
			Hint: "for the image: a minute the first time",
		})
		if err != nil {
			return Archive{}, err
		}
		paths = append(paths, path)
	}
	sum, err := digest("", "", "", paths)
	if err != nil {
		return Archive{}, fmt.Errorf("naming Lanyard's image: %w", err)
	}
	return Image(ctx, "lanyard-k8s/lanyard", sum[:12], "/"+names[0], paths...)
}

// released reads the names of the released programs from the Makefile, the image's entrypoint first.
func released(makefile string) ([]string, error) {
	content, err := os.ReadFile(makefile)
	if err != nil {
		return nil, fmt.Errorf("reading which programs are released: %w", err)
	}
	line := regexp.MustCompile(`(?m)^PROGRAMS\s*:?=(.*)$`).FindSubmatch(content)
	if line == nil || len(strings.Fields(string(line[1]))) == 0 {
		return nil, fmt.Errorf("reading which programs are released: %s does not set PROGRAMS", makefile)
	}
	return strings.Fields(string(line[1])), nil
}
