package connector

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// What a Unix socket's path is held to.
const (
	// pathAtMost is what fits into the kernel's sockaddr_un, its closing zero left aside.
	pathAtMost = 107
	// proveIn is how long a connect attempt may take before a socket's file counts as in use.
	proveIn = time.Second
	// defaultSocketMode lets publishers of any user connect.
	defaultSocketMode fs.FileMode = 0o666
)

// UnixSocket is the socket file. Publishers read its being there as "the connector is up", so that it appears only when it
// can be connected to, with its mode set before, and goes when the connector does.
//
// A lock file beside it keeps a second connector out. Another server's live socket is left alone, and a file that nobody
// listens on is replaced only after an attempt to connect has proved it.
type UnixSocket struct {
	path  string
	mode  fs.FileMode
	group int
	lock  *os.File
}

// NewUnixSocket locks a path, without making the socket yet. A group of -1 leaves the group alone; a zero mode is 0666.
func NewUnixSocket(path string, mode fs.FileMode, group int) (*UnixSocket, error) {
	s := &UnixSocket{path: path, mode: mode, group: group}
	if mode == 0 {
		s.mode = defaultSocketMode
	}
	if longest := max(len(path), len(s.temporary())); longest > pathAtMost {
		return nil, fmt.Errorf("socket %s: the path has %d bytes, and the kernel takes %d; choose a shorter one", path, longest, pathAtMost)
	}
	if info, err := os.Lstat(path); err == nil && info.IsDir() {
		return nil, fmt.Errorf("socket %s: the path is a directory; name a file in it", path)
	}
	if err := s.acquire(); err != nil {
		return nil, err
	}
	return s, nil
}

// temporary is where the socket is made before it gets its name.
func (s *UnixSocket) temporary() string { return filepath.Join(filepath.Dir(s.path), ".new.sock") }

// acquire takes the lock file. It stays when the lock is released: removing it would let two processes each lock a file of
// that name.
func (s *UnixSocket) acquire() error {
	name := s.path + ".lock"
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return fmt.Errorf("socket %s: lock: %w", s.path, err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return fmt.Errorf("socket %s: another connector serves it (it holds %s)", s.path, name)
		}
		return fmt.Errorf("socket %s: lock %s: %w", s.path, name, err)
	}
	s.lock = f
	return nil
}

// Close releases the lock.
func (s *UnixSocket) Close() error { return s.lock.Close() }

// Bound is a socket that can be connected to.
type Bound struct {
	net.Listener
	path string
	id   inode
}

// inode tells one file from another of the same name.
type inode struct{ device, number uint64 }

// Bind makes the socket under a temporary name, gives it its group and mode, and only then its name, in one step.
func (s *UnixSocket) Bind(ctx context.Context) (*Bound, error) {
	if err := s.vacant(ctx); err != nil {
		return nil, err
	}
	temporary := s.temporary()
	if err := os.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("socket %s: %w", s.path, err)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: temporary, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("socket %s: %w", s.path, err)
	}
	l.SetUnlinkOnClose(false)
	b, err := s.publish(l, temporary)
	if err != nil {
		return nil, errors.Join(err, os.Remove(temporary), l.Close())
	}
	return b, nil
}

func (s *UnixSocket) publish(l net.Listener, temporary string) (*Bound, error) {
	if s.group >= 0 {
		if err := os.Chown(temporary, -1, s.group); err != nil {
			return nil, fmt.Errorf("socket %s: give it group %d: %w", s.path, s.group, err)
		}
	}
	if err := os.Chmod(temporary, s.mode); err != nil {
		return nil, fmt.Errorf("socket %s: give it mode %04o: %w", s.path, s.mode, err)
	}
	id, err := inodeOf(temporary)
	if err != nil {
		return nil, fmt.Errorf("socket %s: %w", s.path, err)
	}
	if err := os.Rename(temporary, s.path); err != nil {
		return nil, fmt.Errorf("socket %s: %w", s.path, err)
	}
	return &Bound{Listener: l, path: s.path, id: id}, nil
}

// vacant says why the path must not be taken: there is something else than a socket, or a socket that somebody listens on.
// Only a refused connection proves that nobody does; no answer in time, for one, is that of a busy server.
func (s *UnixSocket) vacant(ctx context.Context) error {
	info, err := os.Lstat(s.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("socket: %w", err)
	case info.IsDir():
		return fmt.Errorf("socket %s: the path is a directory; name a file in it", s.path)
	case info.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("socket %s: there is a file that is no socket; remove it, or choose another path", s.path)
	}
	dialer := net.Dialer{Timeout: proveIn}
	conn, err := dialer.DialContext(ctx, "unix", s.path)
	switch {
	case err == nil:
		_ = conn.Close()
		return fmt.Errorf("socket %s: another process listens on it; stop that one, or choose another path", s.path)
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, fs.ErrNotExist):
		return nil
	default:
		return fmt.Errorf("socket %s: cannot tell whether anybody listens on it: %w", s.path, err)
	}
}

// Ours says whether the path still leads to this socket.
func (b *Bound) Ours() bool {
	id, err := inodeOf(b.path)
	return err == nil && id == b.id
}

// Addr shows the path, not the temporary name.
func (b *Bound) Addr() net.Addr { return &net.UnixAddr{Name: b.path, Net: "unix"} }

// Unlink removes the file, if it is still this socket's.
func (b *Bound) Unlink() error {
	if !b.Ours() {
		return nil
	}
	if err := os.Remove(b.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove socket: %w", err)
	}
	return nil
}

func inodeOf(path string) (inode, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return inode{}, err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return inode{}, errors.New("the file system tells no inode of " + strconv.Quote(path))
	}
	return inode{device: uint64(st.Dev), number: st.Ino}, nil
}
