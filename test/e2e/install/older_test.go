//go:build unix

package install

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/lanyard-k8s/lanyard/test/cluster/nodes"
	"github.com/lanyard-k8s/lanyard/test/cluster/program"
)

// older is an older state of the project: its chart, and the image that goes with it. Chart and image move together.
type older struct {
	commit, chart string
	image         nodes.Archive
}

// tries is how many older states are tried until one can be built and installed: what was committed in between may have had faults
// that show on real nodes only.
const tries = 3

// olderStates are the commits before the last changes of the chart. There are none where git or its history is missing, as in a source
// archive or a shallow clone.
func olderStates(ctx context.Context, tree string) ([]string, error) {
	list, err := git(ctx, tree, "log", fmt.Sprintf("-%d", tries), "--format=%P", "--", "charts/lanyard")
	if err != nil {
		return nil, err
	}
	var commits []string
	for line := range strings.Lines(list) {
		if parents := strings.Fields(line); len(parents) > 0 {
			commits = append(commits, parents[0])
		}
	}
	if len(commits) == 0 {
		return nil, errors.New("the chart has no history here")
	}
	return commits, nil
}

// checkOut lays a commit's files into the cache, where they stay so that they are built once, and builds its image.
// What lies there of other commits than keep is removed.
func checkOut(ctx context.Context, tree, commit string, keep []string) (older, error) {
	cache, err := program.Cache()
	if err != nil {
		return older{}, err
	}
	shelf := filepath.Join(cache, "older")
	dir := filepath.Join(shelf, commit)
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		if err := unpack(ctx, tree, commit, shelf); err != nil {
			return older{}, fmt.Errorf("unpacking commit %s: %w", commit, err)
		}
	}
	if err := forget(shelf, keep); err != nil {
		return older{}, err
	}
	image, err := buildOlder(ctx, dir, commit)
	return older{commit: commit, chart: filepath.Join(dir, "charts", "lanyard"), image: image}, err
}

// unpack lays a commit's files into a folder of its name on the shelf; half a one never has that name.
func unpack(ctx context.Context, tree, commit, shelf string) error {
	if err := os.MkdirAll(shelf, 0o755); err != nil {
		return err
	}
	partial, err := os.MkdirTemp(shelf, "partial-")
	if err != nil {
		return err
	}
	tar := filepath.Join(partial, "tree.tar")
	if _, err := git(ctx, tree, "archive", "--output="+tar, commit); err != nil {
		return errors.Join(err, os.RemoveAll(partial))
	}
	if out, err := exec.CommandContext(ctx, "tar", "-x", "-f", tar, "-C", partial).CombinedOutput(); err != nil {
		return errors.Join(fmt.Errorf("%w: %s", err, out), os.RemoveAll(partial))
	}
	return errors.Join(os.Remove(tar), os.Rename(partial, filepath.Join(shelf, commit)))
}

// forget keeps the cache from growing by a tree with every change of the chart.
func forget(shelf string, keep []string) error {
	entries, err := os.ReadDir(shelf)
	for _, e := range entries {
		if !slices.Contains(keep, e.Name()) {
			err = errors.Join(err, os.RemoveAll(filepath.Join(shelf, e.Name())))
		}
	}
	return err
}

// buildOlder builds the released programs of a tree, and packs them.
func buildOlder(ctx context.Context, dir, commit string) (nodes.Archive, error) {
	makefile, err := os.ReadFile(filepath.Join(dir, "Makefile"))
	if err != nil {
		return nodes.Archive{}, err
	}
	line := regexp.MustCompile(`(?m)^PROGRAMS\s*:?=(.*)$`).FindSubmatch(makefile)
	if line == nil {
		return nodes.Archive{}, fmt.Errorf("the Makefile of commit %s names no programs", commit)
	}
	names := strings.Fields(string(line[1]))
	var paths []string
	for _, name := range names {
		path, err := program.Build(ctx, os.Stderr, program.Source{
			Name: name, Dir: dir, Package: "./cmd/" + name, Static: true, Trimpath: true, LinkFlags: "-s -w -buildid=",
			Hint: "of an older commit: a minute after each change of the chart",
		})
		if err != nil {
			return nodes.Archive{}, fmt.Errorf("building commit %s: %w", commit, err)
		}
		paths = append(paths, path)
	}
	return nodes.Image(ctx, "lanyard-k8s/lanyard", "older-"+commit[:12], "/"+names[0], paths...)
}

func git(ctx context.Context, tree string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", append([]string{"-C", tree}, args...)...)
	var complaint strings.Builder
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w: %s", args[0], err, strings.TrimSpace(complaint.String()))
	}
	return string(out), nil
}
