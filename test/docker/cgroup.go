//go:build linux

package docker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Control groups are the one thing that no namespace takes with it. Those of an Engine lie under a name of its own, which
// is that of its run's folder.
const (
	cgroupPrefix = "lanyard-docker-"
	// emptyWithin is how long the kernel may take to take the last killed process out of its group.
	emptyWithin = 120 * time.Second
)

// cgroups finds an Engine's groups, or with "*" those of all: one for each controller, or a single one.
func cgroups(name string) []string {
	var found []string
	for _, pattern := range []string{"/sys/fs/cgroup/" + name, "/sys/fs/cgroup/*/" + name} {
		dirs, _ := filepath.Glob(pattern)
		found = append(found, dirs...)
	}
	return found
}

// removeCgroups removes an Engine's groups, once the kernel has seen that they are empty.
func removeCgroups(name string) error {
	ctx, cancel := context.WithTimeout(context.Background(), emptyWithin)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		var err error
		for _, dir := range cgroups(name) {
			err = errors.Join(err, removeTree(dir))
		}
		if err == nil || !errors.Is(err, syscall.EBUSY) {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("remove control groups: %w", err)
		}
	}
}

// removeTree removes a group and those in it, the innermost first. Their files go with them.
func removeTree(dir string) error {
	var dirs []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			dirs = append(dirs, path)
		}
		return err
	})
	for _, d := range slices.Backward(dirs) {
		if removed := syscall.Rmdir(d); removed != nil && !errors.Is(removed, fs.ErrNotExist) {
			err = errors.Join(err, &fs.PathError{Op: "rmdir", Path: d, Err: removed})
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// sweepCgroups removes the groups of Engines whose tests were killed: those whose run has no folder any more.
func sweepCgroups(base string) {
	for _, dir := range cgroups(cgroupPrefix + "*") {
		run := strings.TrimPrefix(filepath.Base(dir), cgroupPrefix)
		if _, err := os.Stat(filepath.Join(base, run)); errors.Is(err, fs.ErrNotExist) {
			_ = removeTree(dir) // the next sweep gets what is still in use
		}
	}
}
