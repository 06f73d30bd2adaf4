package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/lanyard-k8s/lanyard/delegation"
	"github.com/lanyard-k8s/lanyard/internal/private"
)

// lockFile is what a second process finds locked.
const lockFile = "delegation.lock"

// place is a directory that is ours, and locked.
type place struct {
	dir  string
	lock *os.File
}

func (p *place) file() string { return filepath.Join(p.dir, File) }

// enter checks a directory and locks it; it makes it, and an empty database, where it may. The lock is the kernel's and is
// gone with the process, however that ends.
func enter(dir string, create bool) (*place, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", delegation.ErrUnavailable, err)
	}
	if create {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("make the directory: %w: %w", lacking(err), err)
		}
	}
	if err := safeDir(dir); err != nil {
		return nil, err
	}
	f, err := openFile(filepath.Join(dir, lockFile), os.O_CREATE)
	if err != nil {
		return nil, err
	}
	p := &place{dir: dir, lock: f}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", f.Name(), delegation.ErrLocked), f.Close())
	}
	if err := p.ready(create); err != nil {
		return nil, errors.Join(err, p.leave())
	}
	return p, nil
}

// ready checks the database's files; the mode of those that SQLite makes later is the database's own.
func (p *place) ready(create bool) error {
	flags := 0
	if create {
		flags = os.O_CREATE
	}
	f, err := openFile(p.file(), flags)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !create:
		return fmt.Errorf("%w: there is none in %s", delegation.ErrSchemaOlder, p.dir)
	case err != nil:
		return err
	}
	if err := f.Close(); err != nil {
		return fmt.Errorf("close: %w: %w", delegation.ErrUnavailable, err)
	}
	for _, beside := range []string{"-wal", "-shm", "-journal"} {
		if err := safeFile(p.file() + beside); err != nil {
			return err
		}
	}
	return nil
}

// leave gives the lock up. Closing alone would not do: a child that is being started holds a copy of the file for a moment.
func (p *place) leave() error {
	err := syscall.Flock(int(p.lock.Fd()), syscall.LOCK_UN)
	if err := errors.Join(err, p.lock.Close()); err != nil {
		return fmt.Errorf("unlock the database: %w", err)
	}
	return nil
}

// safeDir demands a real directory of ours that nobody else may enter.
func safeDir(dir string) error {
	info, err := os.Lstat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: there is no directory %s", delegation.ErrSchemaOlder, dir)
	case err != nil:
		return fmt.Errorf("look at the directory: %w: %w", lacking(err), err)
	}
	switch private.Directory(info) {
	case private.Link:
		return fmt.Errorf("%w: %s is a symbolic link; name the directory itself", delegation.ErrUnsafe, dir)
	case private.Kind:
		return fmt.Errorf("%w: %s is no directory", delegation.ErrUnsafe, dir)
	case private.Mode:
		return fmt.Errorf("%w: %s has mode %#o; it must be 0700 (on a shared volume, use a directory below its root)", delegation.ErrUnsafe, dir, info.Mode().Perm())
	case private.Owner:
		return fmt.Errorf("%w: %s belongs to another user", delegation.ErrUnsafe, dir)
	}
	return nil
}

// safeFile demands of a file, if there is one, that it is a plain one of ours that nobody else may touch.
func safeFile(name string) error {
	info, err := os.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("look at a file: %w: %w", lacking(err), err)
	}
	switch private.File(info) {
	case private.Link, private.Kind:
		return fmt.Errorf("%w: %s is a symbolic link or no plain file", delegation.ErrUnsafe, name)
	case private.Mode:
		return fmt.Errorf("%w: %s has mode %#o; it must be 0600", delegation.ErrUnsafe, name, info.Mode().Perm())
	case private.Owner:
		return fmt.Errorf("%w: %s belongs to another user", delegation.ErrUnsafe, name)
	}
	return nil
}

// openFile opens a file that is safe, or makes it so. A symbolic link is not followed even if it appears just now.
func openFile(name string, flags int) (*os.File, error) {
	if err := safeFile(name); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(name, os.O_RDWR|syscall.O_NOFOLLOW|flags, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open a file: %w: %w", lacking(err), err)
	}
	return f, nil
}

// lacking is what kept us from a file: a disk that takes no writes, or anything else.
func lacking(err error) error {
	if errors.Is(err, syscall.EROFS) || errors.Is(err, syscall.ENOSPC) || errors.Is(err, fs.ErrPermission) {
		return delegation.ErrReadOnly
	}
	return delegation.ErrUnavailable
}
