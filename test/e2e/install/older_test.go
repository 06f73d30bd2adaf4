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
	"testing"

	"github.com/lanyard-k8s/lanyard/test/cluster/nodes"
	"github.com/lanyard-k8s/lanyard/test/cluster/program"
	"github.com/lanyard-k8s/lanyard/test/e2e/house"
)

// older is an older state of the project: its chart, and the image that goes with it. Chart and image move together.
type older struct {
	commit, chart string
	image         nodes.Archive
}

const (
	// tries is how many older states are tried until one can be built and installed: what was committed in between may have had
	// faults that show on real nodes only.
	tries = 3
	// looks is how many changes of the chart are looked at for one that has changed what it installs.
	looks = 16
)

// errNoHistory says that an older state is not to be had here, for reasons that are no fault of the project's.
var errNoHistory = errors.New("there is no older state to upgrade from")

// olderStates are the commits before the last changes of the chart, the newest first. That there are none where git or its history is
// missing, as in a source archive or a shallow clone, is errNoHistory; where there is history, anything else is a fault.
func olderStates(ctx context.Context, tree string) ([]string, error) {
	if _, err := exec.LookPath("git"); err != nil {
		return nil, fmt.Errorf("%w: git is not installed", errNoHistory)
	}
	if _, err := os.Stat(filepath.Join(tree, ".git")); errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%w: these sources came without their history", errNoHistory)
	}
	list, err := git(ctx, tree, "log", fmt.Sprintf("-%d", looks), "--format=%P", "--", "charts/lanyard")
	if err != nil {
		return nil, err
	}
	var commits []string
	for line := range strings.Lines(list) {
		if parents := strings.Fields(line); len(parents) > 0 && !slices.Contains(commits, parents[0]) {
			commits = append(commits, parents[0])
		}
	}
	if len(commits) > 0 {
		return commits, nil
	}
	shallow, err := git(ctx, tree, "rev-parse", "--is-shallow-repository")
	if err != nil {
		return nil, err
	}
	if strings.TrimSpace(shallow) == "true" {
		return nil, fmt.Errorf("%w: this clone is shallow; `git fetch --unshallow` brings the rest", errNoHistory)
	}
	return nil, fmt.Errorf("%w: the chart has never been changed", errNoHistory)
}

// telling puts those older states first whose charts install something else than this one does, and says how many they are. Most changes
// of a chart are of its checks and comments, and an upgrade from before such a one changes no object but for the image.
func telling(ctx context.Context, h *house.House, tree, scratch, values string, commits []string) ([]string, int, error) {
	now, err := h.Render(ctx, house.Chart(), values)
	if err != nil {
		return nil, 0, err
	}
	var first, rest []string
	for _, commit := range commits {
		dir := filepath.Join(scratch, commit)
		if err := lay(ctx, tree, commit, dir, "charts/lanyard"); err != nil {
			return nil, 0, err
		}
		// One that does not take the values is tried in the end, and says so then.
		if was, err := h.Render(ctx, filepath.Join(dir, "charts", "lanyard"), values); err == nil && was != now {
			first = append(first, commit)
		} else {
			rest = append(rest, commit)
		}
	}
	all := append(first, rest...)
	return all[:min(tries, len(all))], len(first), nil
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
	if err := lay(ctx, tree, commit, partial); err != nil {
		return errors.Join(err, os.RemoveAll(partial))
	}
	return os.Rename(partial, filepath.Join(shelf, commit))
}

// lay lays a commit's files, or those under some paths, into a folder.
func lay(ctx context.Context, tree, commit, dir string, paths ...string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	tar := filepath.Join(dir, "tree.tar")
	if _, err := git(ctx, tree, append([]string{"archive", "--output=" + tar, commit}, paths...)...); err != nil {
		return err
	}
	if out, err := exec.CommandContext(ctx, "tar", "-x", "-f", tar, "-C", dir).CombinedOutput(); err != nil {
		return fmt.Errorf("tar: %w: %s", err, out)
	}
	return os.Remove(tar)
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

// TestOlderStates finds the commits before the chart's changes in a whole clone, and says why there are none in a shallow one and
// without a history. That is decided, and not guessed from an error: a test of upgrades must not pass for want of an older state.
func TestOlderStates(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("SKIPPED: git is not installed")
	}
	dir := t.TempDir()
	whole := filepath.Join(dir, "whole")
	do := func(args ...string) {
		t.Helper()
		args = append([]string{"-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "protocol.file.allow=always", "-c", "commit.gpgsign=false"}, args...)
		if out, err := exec.CommandContext(t.Context(), "git", args...).CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
	do("init", "--quiet", whole)
	var heads []string
	for _, change := range []string{"charts/lanyard/Chart.yaml", "README.md", "charts/lanyard/values.yaml"} {
		path := filepath.Join(whole, change)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte("one"), 0o600)); err != nil {
			t.Fatal(err)
		}
		do("-C", whole, "add", ".")
		do("-C", whole, "commit", "--quiet", "-m", change)
		head, err := git(t.Context(), whole, "rev-parse", "HEAD")
		if err != nil {
			t.Fatal(err)
		}
		heads = append(heads, strings.TrimSpace(head))
	}
	if got, err := olderStates(t.Context(), whole); err != nil || !slices.Equal(got, heads[1:2]) {
		t.Errorf("in a whole clone: %v, %v, want the commit before the chart's last change, %v", got, err, heads[1])
	}
	shallow, bare := filepath.Join(dir, "shallow"), filepath.Join(dir, "bare")
	do("clone", "--quiet", "--depth=1", "file://"+whole, shallow)
	if err := os.MkdirAll(bare, 0o700); err != nil {
		t.Fatal(err)
	}
	for tree, says := range map[string]string{shallow: "git fetch --unshallow", bare: "came without their history"} {
		if got, err := olderStates(t.Context(), tree); !errors.Is(err, errNoHistory) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, %v, want %v: ...%s...", filepath.Base(tree), got, err, errNoHistory, says)
		}
	}
	broken := filepath.Join(dir, "broken")
	if err := os.MkdirAll(filepath.Join(broken, ".git"), 0o700); err != nil {
		t.Fatal(err)
	}
	if got, err := olderStates(t.Context(), broken); err == nil || errors.Is(err, errNoHistory) {
		t.Errorf("a clone that git cannot read: %v, %v, want a fault", got, err)
	}
}
