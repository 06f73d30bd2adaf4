//go:build unix

// Package rundir gives each run of a test control plane a folder and ports of its own, and clears away what runs left
// behind that could not do so themselves. A run holds a lock on its folder which the kernel gives back when the process is
// gone, however it went: whose lock can be had is dead. No process id is trusted, since the system uses those again.
package rundir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/lanyard-k8s/lanyard/test/cluster/filelock"
)

const (
	lockName = "lock"
	portName = "ports"
	prefix   = "run-"
)

// Dir is the folder of one run.
type Dir struct {
	base string
	path string
	lock *os.File
}

// Base returns the folder that all of a user's runs have their folders in. It is readable for that user alone, since private
// keys lie there.
func Base() string {
	return filepath.Join(os.TempDir(), fmt.Sprintf("lanyard-%d", os.Getuid()))
}

// New sweeps the folders of dead runs in base and makes a new one.
func New(base string) (*Dir, error) {
	if err := private(base); err != nil {
		return nil, err
	}
	var d *Dir
	err := exclusively(base, func() error {
		if err := sweep(base); err != nil {
			return err
		}
		path, err := os.MkdirTemp(base, prefix)
		if err != nil {
			return err
		}
		lock, err := filelock.Try(filepath.Join(path, lockName))
		if err != nil {
			return err
		}
		d = &Dir{base: base, path: path, lock: lock}
		// For people who wonder whose folder this is.
		return os.WriteFile(d.Path("pid"), []byte(strconv.Itoa(os.Getpid())+"\n"), 0o600)
	})
	if err != nil {
		return nil, fmt.Errorf("making a folder for the run: %w", err)
	}
	return d, nil
}

// Path returns the path of something in the folder.
func (d *Dir) Path(elements ...string) string {
	return filepath.Join(append([]string{d.path}, elements...)...)
}

// Remove removes the folder and gives its ports back.
func (d *Dir) Remove() error {
	return exclusively(d.base, func() error {
		return errors.Join(os.RemoveAll(d.path), d.lock.Close())
	})
}

// Abandon leaves the folder for somebody to look into, until the next run sweeps it.
func (d *Dir) Abandon() error { return d.lock.Close() }

// sweep removes the folders whose owners are gone. The caller holds the lock of base.
func sweep(base string) error {
	runs, err := filepath.Glob(filepath.Join(base, prefix+"*"))
	if err != nil {
		return err
	}
	var errs []error
	for _, run := range runs {
		lock, err := filelock.Try(filepath.Join(run, lockName))
		if errors.Is(err, syscall.EWOULDBLOCK) {
			continue
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		// The last of its processes may be dying still and have written a file just now; the next sweep gets the rest.
		_ = os.RemoveAll(run)
		errs = append(errs, lock.Close())
	}
	return errors.Join(errs...)
}

// private makes base, or sees to it that nobody else made it: the place is one that everybody may write to.
func private(base string) error {
	if err := os.MkdirAll(base, 0o700); err != nil {
		return fmt.Errorf("making the folder of the runs: %w", err)
	}
	info, err := os.Lstat(base)
	if err != nil {
		return fmt.Errorf("looking at the folder of the runs: %w", err)
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !info.IsDir() || !ok || int(stat.Uid) != os.Getuid() || info.Mode().Perm() != 0o700 {
		return fmt.Errorf("%s is not a folder that only its owner may enter; remove it or set TMPDIR to another place", base)
	}
	return nil
}

// exclusively calls do while no other process of this user is in here for the same base.
func exclusively(base string, do func() error) error {
	return filelock.Holding(filepath.Join(base, lockName), do)
}

// notedPorts reads the ports that a run has taken.
func notedPorts(run string) ([]int, error) {
	content, err := os.ReadFile(filepath.Join(run, portName))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var ports []int
	for _, line := range strings.Fields(string(content)) {
		port, err := strconv.Atoi(line)
		if err != nil {
			return nil, err
		}
		ports = append(ports, port)
	}
	return ports, nil
}
