package keys

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/lanyard-k8s/lanyard/internal/private"
)

// lockName is the file that updates lock, among processes.
const lockName = ".lock"

// Directory is the shelf in a directory, mode 0700, whose files are its owner's alone. It is for one machine: the demo, Docker, and
// a volume of the exchange's own.
type Directory struct {
	dir string
}

// NewDirectory is a shelf in a directory, which it makes if there is none. A directory or file that others may look into, or that is a
// symbolic link, is ErrUnsafe.
func NewDirectory(dir string) (*Directory, error) {
	abs, err := filepath.Abs(dir)
	if err != nil || dir == "" {
		return nil, fmt.Errorf("open the keys' directory: %w: it needs a path", ErrUnsafe)
	}
	if err := os.MkdirAll(abs, 0o700); err != nil {
		return nil, fmt.Errorf("make the keys' directory: %w: %w", ErrUnavailable, err)
	}
	d := &Directory{dir: abs}
	return d, d.safe()
}

// safe looks at the directory itself.
func (d *Directory) safe() error {
	info, err := os.Lstat(d.dir)
	if err != nil {
		return fmt.Errorf("look at the keys' directory: %w: %w", ErrUnavailable, err)
	}
	if private.Directory(info) != "" {
		return fmt.Errorf("%w: %s must be a directory of mode 0700 that belongs to the exchange's user", ErrUnsafe, d.dir)
	}
	return nil
}

// Read reads the directory, between updates.
func (d *Directory) Read(context.Context) (State, error) {
	unlock, err := d.lock(syscall.LOCK_SH)
	if err != nil {
		return State{}, err
	}
	defer unlock()
	return d.read()
}

func (d *Directory) read() (State, error) {
	if err := d.safe(); err != nil {
		return State{}, err
	}
	data, err := d.files()
	if err != nil {
		return State{}, err
	}
	s, err := decode(data)
	if err != nil {
		return State{}, fmt.Errorf("read the keys' directory: %w", err)
	}
	return s, nil
}

// files reads what there is.
func (d *Directory) files() (map[string][]byte, error) {
	data := map[string][]byte{}
	entries := []string{ringName, markName}
	more, err := filepath.Glob(filepath.Join(d.dir, "*"+keySuffix))
	if err != nil {
		return nil, fmt.Errorf("list the keys' directory: %w: %w", ErrUnavailable, err)
	}
	for _, path := range more {
		entries = append(entries, filepath.Base(path))
	}
	for _, name := range entries {
		content, err := d.file(name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return nil, err
		default:
			data[name] = content
		}
	}
	return data, nil
}

// file reads one file that nobody else can read.
func (d *Directory) file(name string) ([]byte, error) {
	path := filepath.Join(d.dir, name)
	info, err := os.Lstat(path)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w: %w", name, ErrUnavailable, err)
	}
	if private.File(info) != "" {
		return nil, fmt.Errorf("%w: %s must be a file of mode 0600 that belongs to the exchange's user", ErrUnsafe, path)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w: %w", name, ErrUnavailable, err)
	}
	return content, nil
}

// Update locks the directory for as long as it takes.
func (d *Directory) Update(_ context.Context, change func(State) (State, error)) (State, error) {
	unlock, err := d.lock(syscall.LOCK_EX)
	if err != nil {
		return State{}, err
	}
	defer unlock()
	state, err := d.read()
	if err != nil {
		return State{}, err
	}
	next, err := change(state.clone())
	if err != nil {
		return state, err
	}
	return next, d.write(state, next)
}

// lock locks the directory, among goroutines and processes alike: each call opens the file anew.
func (d *Directory) lock(how int) (func(), error) {
	f, err := os.OpenFile(filepath.Join(d.dir, lockName), os.O_CREATE|os.O_RDWR|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the keys' directory: %w: %w", ErrUnavailable, err)
	}
	if err := syscall.Flock(int(f.Fd()), how); err != nil {
		return nil, errors.Join(fmt.Errorf("lock the keys' directory: %w: %w", ErrUnavailable, err), f.Close())
	}
	return func() { _ = f.Close() }, nil
}

// write puts new keys there first, then the ring, and takes old keys away last: whatever is cut short leaves a ring whose keys are all there.
func (d *Directory) write(old, next State) error {
	data, err := next.encode()
	if err != nil {
		return err
	}
	ring, mark := data[ringName], data[markName]
	delete(data, ringName)
	delete(data, markName)
	for name, content := range data {
		if err := d.replace(name, content); err != nil {
			return err
		}
	}
	if err := errors.Join(d.replace(ringName, ring), d.replace(markName, mark)); err != nil {
		return err
	}
	for id := range old.Keys {
		if _, kept := next.Keys[id]; !kept {
			if err := os.Remove(filepath.Join(d.dir, id+keySuffix)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("remove an old key: %w: %w", ErrUnavailable, err)
			}
		}
	}
	return nil
}

// replace writes a file whole or not at all.
func (d *Directory) replace(name string, content []byte) error {
	f, err := os.CreateTemp(d.dir, ".new-*") // mode 0600
	if err != nil {
		return fmt.Errorf("write %s: %w: %w", name, ErrUnavailable, err)
	}
	_, err = f.Write(content)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), filepath.Join(d.dir, name))
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write %s: %w: %w", name, ErrUnavailable, err), os.Remove(f.Name()))
	}
	return nil
}
