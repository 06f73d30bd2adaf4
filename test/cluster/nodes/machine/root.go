//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/lanyard-k8s/lanyard/test/cluster/nodes/boot"
)

// enterRoot turns the folder of the node's disk into the root of its mount namespace. The node sees this machine's programs,
// kernel and devices, and nothing else that lies on it; /run is as empty as after a start of a machine.
func enterRoot(spec boot.Spec) error {
	in := func(path string) string { return filepath.Join(spec.Root, path) }
	if err := makeFolders(in); err != nil {
		return err
	}
	mounts := []struct {
		from, to, kind string
		flags          uintptr
	}{
		{"", "/", "", syscall.MS_REC | syscall.MS_PRIVATE},
		{spec.Root, spec.Root, "", syscall.MS_BIND},
		{"proc", in("/proc"), "proc", 0},
		{"sysfs", in("/sys"), "sysfs", 0}, // this network namespace's
		{"/sys/fs/cgroup", in("/sys/fs/cgroup"), "", syscall.MS_BIND | syscall.MS_REC},
		{"/dev", in("/dev"), "", syscall.MS_BIND | syscall.MS_REC},
		{"tmpfs", in("/run"), "tmpfs", 0},
	}
	for _, m := range mounts {
		if err := syscall.Mount(m.from, m.to, m.kind, m.flags, ""); err != nil {
			return fmt.Errorf("mounting %s: %w", m.to, err)
		}
	}
	if err := showPrograms(in); err != nil {
		return err
	}
	for _, m := range spec.Mounts {
		if err := show(m.From, in(m.To)); err != nil {
			return err
		}
	}
	return pivot(spec.Root)
}

// makeFolders makes what a root has to have.
func makeFolders(in func(string) string) error {
	for _, dir := range []string{"proc", "sys", "dev", "run", "usr", "opt", "etc", "var/lib", "var/log", "home", "mnt", "srv"} {
		if err := os.MkdirAll(in(dir), 0o755); err != nil {
			return err
		}
	}
	for _, dir := range []string{"tmp", "var/tmp"} {
		if err := os.MkdirAll(in(dir), 0o777); err != nil {
			return err
		}
		if err := os.Chmod(in(dir), 0o777|os.ModeSticky); err != nil {
			return err
		}
	}
	if err := os.Symlink("/run", in("var/run")); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return nil
}

// showPrograms shows this machine's programs and libraries: /usr, and the folders beside it, most of which are links into it
// on a present-day system.
func showPrograms(in func(string) string) error {
	for _, dir := range []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc/alternatives", "/etc/ld.so.cache"} {
		info, err := os.Lstat(dir)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if info.Mode()&os.ModeSymlink == 0 {
			if err := show(dir, in(dir)); err != nil {
				return err
			}
			continue
		}
		target, err := os.Readlink(dir)
		if err != nil {
			return err
		}
		if err := os.Symlink(target, in(dir)); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	return nil
}

// show mounts a file or a folder of this machine, read-only.
func show(from, to string) error {
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	if info.IsDir() {
		err = os.MkdirAll(to, 0o755)
	} else if err = os.MkdirAll(filepath.Dir(to), 0o755); err == nil {
		err = os.WriteFile(to, nil, 0o644)
	}
	if err != nil {
		return err
	}
	if err := syscall.Mount(from, to, "", syscall.MS_BIND, ""); err != nil {
		return fmt.Errorf("showing %s to the node: %w", from, err)
	}
	if err := syscall.Mount("", to, "", syscall.MS_BIND|syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		return fmt.Errorf("showing %s to the node, read-only: %w", from, err)
	}
	return nil
}

// pivot makes a mounted folder the root and lets go of the old one. Mounts are shared from there on, as containers that
// hand mounts on to their node expect it.
func pivot(root string) error {
	if err := os.Chdir(root); err != nil {
		return err
	}
	if err := syscall.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("entering the node's root: %w", err)
	}
	if err := syscall.Unmount(".", syscall.MNT_DETACH); err != nil {
		return fmt.Errorf("leaving this machine's root: %w", err)
	}
	if err := os.Chdir("/"); err != nil {
		return err
	}
	return syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_SHARED, "")
}
