//go:build unix

// Package cgroup makes and removes the cgroup that a node keeps its pods in, in each of the hierarchies that a machine has:
// the one of cgroup v2, the many of v1, or the mixture.
package cgroup

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// ErrControllers says that a machine with cgroup v2 does not hand down the controllers that a kubelet needs.
var ErrControllers = errors.New("the cgroup hierarchy does not offer the controllers that a kubelet needs")

// needed are the controllers that a kubelet needs.
var needed = []string{"cpu", "cpuset", "memory", "pids"}

// hierarchy is a mounted cgroup file system.
type hierarchy struct {
	path    string
	unified bool
}

// Create makes a cgroup of this name at the top of every hierarchy.
func Create(name string) error {
	all, err := hierarchies()
	if err != nil {
		return err
	}
	v1 := slices.ContainsFunc(all, func(h hierarchy) bool { return !h.unified })
	for _, h := range all {
		if h.unified && v1 {
			continue // it has no controllers where v1 has them
		}
		if h.unified {
			if err := delegate(h.path); err != nil {
				return err
			}
		}
		dir := filepath.Join(h.path, name)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("making the cgroup %s: %w", dir, err)
		}
		if err := fillCpuset(h.path, dir); err != nil {
			return err
		}
	}
	return nil
}

// delegate hands the controllers down to the children of the top cgroup.
func delegate(top string) error {
	offered, err := os.ReadFile(filepath.Join(top, "cgroup.controllers"))
	if err != nil {
		return fmt.Errorf("reading the controllers of %s: %w", top, err)
	}
	for _, c := range needed {
		if !slices.Contains(strings.Fields(string(offered)), c) {
			return fmt.Errorf("%w: %s is not in %s/cgroup.controllers", ErrControllers, c, top)
		}
	}
	order := "+" + strings.Join(needed, " +")
	if err := os.WriteFile(filepath.Join(top, "cgroup.subtree_control"), []byte(order), 0o644); err != nil {
		return fmt.Errorf("%w: %w", ErrControllers, err)
	}
	return nil
}

// fillCpuset gives a new cgroup of v1 all processors, without which nothing may run in it.
func fillCpuset(top, dir string) error {
	for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
		all, err := os.ReadFile(filepath.Join(top, file))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, file), all, 0o644)
		}
		if err != nil {
			return fmt.Errorf("filling %s of %s: %w", file, dir, err)
		}
	}
	return nil
}

// removal bounds how long the last processes of a cgroup may take to be gone.
const removal = 2 * time.Minute

// Remove kills what is in the cgroup of this name and below, and removes it from every hierarchy. That there is none is no
// fault.
func Remove(name string) error {
	all, err := hierarchies()
	if err != nil {
		return err
	}
	var errs []error
	for _, h := range all {
		dir := filepath.Join(h.path, name)
		deadline := time.Now().Add(removal)
		for {
			err := removeTree(dir)
			if err == nil {
				break
			}
			if time.Now().After(deadline) {
				errs = append(errs, fmt.Errorf("removing the cgroup %s: %w", dir, err))
				break
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
	return errors.Join(errs...)
}

// removeTree kills what runs in a cgroup and removes it, the innermost first. A cgroup is busy until its processes are gone.
func removeTree(dir string) error {
	var dirs []string
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if err == nil && entry.IsDir() {
			dirs = append(dirs, path)
		}
		return err
	})
	errs := []error{err}
	for _, d := range slices.Backward(dirs) {
		killAll(d)
		if err := os.Remove(d); err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// killAll kills the processes that are in a cgroup, which nobody but its node puts there.
func killAll(dir string) {
	content, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if err != nil {
		return
	}
	for _, line := range strings.Fields(string(content)) {
		if pid, err := strconv.Atoi(line); err == nil && pid > 1 {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}

// hierarchies are the cgroup file systems that are mounted.
func hierarchies() ([]hierarchy, error) {
	f, err := os.Open("/proc/self/mounts")
	if err != nil {
		return nil, fmt.Errorf("looking for the cgroup hierarchies: %w", err)
	}
	defer f.Close()
	var found []hierarchy
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) < 3 || (fields[2] != "cgroup" && fields[2] != "cgroup2") {
			continue
		}
		if h := (hierarchy{fields[1], fields[2] == "cgroup2"}); !slices.Contains(found, h) {
			found = append(found, h)
		}
	}
	if len(found) == 0 {
		return nil, errors.New("no cgroup hierarchy is mounted")
	}
	return found, nil
}
