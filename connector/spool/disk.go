package spool

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/lanyard-k8s/lanyard/internal/private"
)

// file is an open file of the spool. Writes go to its end.
type file interface {
	io.Writer
	io.ReaderAt
	io.Closer
	Sync() error
	Truncate(size int64) error
}

// disk is the spool's directory. Tests put one between that is full or broken.
type disk interface {
	// list returns the names and sizes of the regular files in a folder; "." is the directory itself.
	list(folder string) (map[string]int64, error)
	// create makes a file that is not there yet.
	create(name string) (file, error)
	// open opens a file for reading and appending, and makes it if it is not there.
	open(name string) (file, error)
	rename(from, to string) error
	remove(name string) error
	// sync makes the names in a folder durable.
	sync(folder string) error
	close() error
}

const (
	asideFolder = "quarantine"
	lockName    = "lock"
	ownerOnly   = fs.FileMode(0o600)
	ownersOwn   = fs.FileMode(0o700)
)

// rootDisk is a directory that belongs to us alone and that another process of ours may not use at the same time.
type rootDisk struct {
	root *os.Root
	lock *os.File
}

// openRoot opens and locks the directory. It refuses a symlink, a foreign owner and a mode beyond 0700, for the directory and for
// everything in it: whoever can write there decides what is reported about the node.
func openRoot(dir string) (*rootDisk, error) {
	if err := os.Mkdir(dir, ownersOwn); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("make the spool's directory: %w", err)
	}
	before, err := os.Lstat(dir)
	if err != nil {
		return nil, fmt.Errorf("look at the spool's directory: %w", err)
	}
	if !before.IsDir() {
		return nil, fmt.Errorf("the spool's directory %s is a symlink or no directory", dir)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open the spool's directory: %w", err)
	}
	d := &rootDisk{root: root}
	if err := d.take(dir, before); err != nil {
		return nil, errors.Join(err, d.close())
	}
	return d, nil
}

// take checks the directory, locks it and checks what is in it.
func (d *rootDisk) take(dir string, before fs.FileInfo) error {
	opened, err := d.root.Stat(".")
	if err != nil {
		return fmt.Errorf("look at the spool's directory: %w", err)
	}
	if !os.SameFile(before, opened) {
		return fmt.Errorf("the spool's directory %s was replaced while it was opened", dir)
	}
	if opened, err = d.narrow(opened); err != nil {
		return err
	}
	if err := ours(dir, opened, ownersOwn); err != nil {
		return err
	}
	if d.lock, err = d.root.OpenFile(lockName, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, ownerOnly); err != nil {
		return fmt.Errorf("open the spool's lock: %w", err)
	}
	switch err := syscall.Flock(int(d.lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); {
	case errors.Is(err, syscall.EWOULDBLOCK):
		return ErrLocked
	case err != nil:
		return fmt.Errorf("lock the spool: %w", err)
	}
	if err := d.root.Mkdir(asideFolder, ownersOwn); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("make the folder %s: %w", asideFolder, err)
	}
	return d.inspect(dir)
}

// narrow takes the others' rights from an empty directory of ours that they cannot write to: that is what the kubelet makes
// for a hostPath.
func (d *rootDisk) narrow(dir fs.FileInfo) (fs.FileInfo, error) {
	if dir.Mode().Perm() == ownersOwn || dir.Mode().Perm()&0o022 != 0 || !private.Owned(dir) {
		return dir, nil
	}
	if entries, err := fs.ReadDir(d.root.FS(), "."); err != nil || len(entries) > 0 {
		return dir, err
	}
	if err := d.root.Chmod(".", ownersOwn); err != nil {
		return nil, fmt.Errorf("narrow the spool's directory: %w", err)
	}
	return d.root.Stat(".")
}

// inspect checks everything in the directory, what the spool does not know included.
func (d *rootDisk) inspect(dir string) error {
	return fs.WalkDir(d.root.FS(), ".", func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return fmt.Errorf("read the spool's directory: %w", err)
		}
		info, err := d.root.Lstat(name)
		if err != nil {
			return fmt.Errorf("look at %s: %w", filepath.Join(dir, name), err)
		}
		if e.IsDir() {
			return ours(filepath.Join(dir, name), info, ownersOwn)
		}
		return ours(filepath.Join(dir, name), info, ownerOnly)
	})
}

// ours says what makes something in the directory not fit for a spool.
func ours(name string, info fs.FileInfo, most fs.FileMode) error {
	switch mode := info.Mode(); {
	case !mode.IsRegular() && !mode.IsDir():
		return fmt.Errorf("%s is neither a file nor a directory (%s); the spool follows no symlinks", name, mode.Type())
	case !private.Owned(info):
		return fmt.Errorf("%s belongs to another user", name)
	case mode.Perm()&^most != 0:
		return fmt.Errorf("%s has mode %#o and must have %#o at most", name, mode.Perm(), most)
	default:
		return nil
	}
}

func (d *rootDisk) list(folder string) (map[string]int64, error) {
	entries, err := fs.ReadDir(d.root.FS(), folder)
	if err != nil {
		return nil, fmt.Errorf("list the spool: %w", err)
	}
	found := map[string]int64{}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			return nil, fmt.Errorf("list the spool: %w", err)
		}
		if info.Mode().IsRegular() {
			found[e.Name()] = info.Size()
		}
	}
	return found, nil
}

func (d *rootDisk) create(name string) (file, error) {
	return d.root.OpenFile(name, os.O_RDWR|os.O_APPEND|os.O_CREATE|os.O_EXCL, ownerOnly)
}

func (d *rootDisk) open(name string) (file, error) {
	return d.root.OpenFile(name, os.O_RDWR|os.O_APPEND|os.O_CREATE|syscall.O_NOFOLLOW, ownerOnly)
}

func (d *rootDisk) rename(from, to string) error { return d.root.Rename(from, to) }

func (d *rootDisk) remove(name string) error { return d.root.Remove(name) }

func (d *rootDisk) sync(folder string) error {
	dir, err := d.root.Open(folder)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

func (d *rootDisk) close() error {
	var errs []error
	if d.lock != nil {
		errs = append(errs, d.lock.Close()) // which unlocks it
	}
	return errors.Join(append(errs, d.root.Close())...)
}
