package socket

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// The modes of the directory and of the socket: the group's members submit, and nobody else reaches either.
const (
	directoryMode fs.FileMode = 0o750
	socketMode    fs.FileMode = 0o660
)

// pathAtMost is what fits into the kernel's sockaddr_un, its closing zero left aside.
const pathAtMost = 107

// Listener is a socket that can be connected to.
type Listener struct {
	*net.UnixListener
	path string
}

// Addr is the name that the socket has, not the one that it was made under.
func (l *Listener) Addr() net.Addr { return &net.UnixAddr{Name: l.path, Net: "unix"} }

// Listen makes the socket in its directory, for the members of a group; a group of -1 is the directory's own. The directory is made where
// there is none. One that others may enter or write to is refused: whoever can write to it could put a socket of his own there,
// and be handed what users submit.
func Listen(ctx context.Context, path string, group int) (*Listener, error) {
	dir, temporary := filepath.Dir(path), filepath.Join(filepath.Dir(path), ".new.sock")
	if longest := max(len(path), len(temporary)); longest > pathAtMost {
		return nil, fmt.Errorf("socket %s: the path has %d bytes, and the kernel takes %d; choose a shorter one", path, longest, pathAtMost)
	}
	if err := prepare(dir, group); err != nil {
		return nil, err
	}
	if err := vacate(ctx, path); err != nil {
		return nil, err
	}
	if err := os.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("socket %s: %w", path, err)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: temporary, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("socket %s: %w", path, err)
	}
	l.SetUnlinkOnClose(false) // it has another name by then
	err = os.Chmod(temporary, socketMode)
	if err == nil && group >= 0 {
		err = os.Chown(temporary, -1, group)
	}
	if err == nil {
		err = os.Rename(temporary, path) // it appears with its mode, and only when it can be connected to
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("socket %s: %w", path, err), l.Close(), os.Remove(temporary))
	}
	return &Listener{UnixListener: l, path: path}, nil
}

// prepare makes the directory, or checks the one that is there.
func prepare(dir string, group int) error {
	info, err := os.Lstat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		if err := os.Mkdir(dir, directoryMode); err != nil {
			return fmt.Errorf("make the socket's directory: %w", err)
		}
		if group >= 0 {
			if err := os.Chown(dir, -1, group); err != nil {
				return fmt.Errorf("give the socket's directory its group: %w; start as root, or make the directory before: install -d -m 0750 -o root -g %d %s", err, group, dir)
			}
		}
		if err := os.Chmod(dir, directoryMode); err != nil { // the umask has had its say
			return fmt.Errorf("make the socket's directory: %w", err)
		}
		info, err = os.Lstat(dir)
	}
	if err != nil {
		return fmt.Errorf("look at the socket's directory: %w", err)
	}
	if err := safe(dir, info, group); err != nil {
		return err
	}
	return safeAbove(dir)
}

// safe checks the directory itself.
func safe(dir string, info fs.FileInfo, group int) error {
	stat, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		return fmt.Errorf("the socket's directory %s is a symbolic link; name the directory itself", dir)
	case !info.IsDir():
		return fmt.Errorf("the socket's directory %s is no directory", dir)
	case !ok || (stat.Uid != 0 && int(stat.Uid) != os.Geteuid()):
		return fmt.Errorf("the socket's directory %s must belong to root or to this program's user; chown root %s", dir, dir)
	case info.Mode().Perm()&0o027 != 0:
		return fmt.Errorf("the socket's directory %s has mode %04o; nobody but its owner may write to it, and others may not enter: chmod 0750 %s", dir, info.Mode().Perm(), dir)
	case group >= 0 && int(stat.Gid) != group:
		return fmt.Errorf("the socket's directory %s has group %d instead of %d; chgrp %d %s", dir, stat.Gid, group, group, dir)
	}
	return nil
}

// safeAbove checks the directories above, those of the name and those that links among them lead to: whoever may write to one of them
// could put another in the place of ours.
func safeAbove(dir string) error {
	target, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return fmt.Errorf("look at the directory above the socket's: %w", err)
	}
	if err := safeWay(target); err != nil {
		return err
	}
	return safeWay(dir)
}

func safeWay(dir string) error {
	for up := filepath.Dir(dir); ; up = filepath.Dir(up) {
		info, err := os.Stat(up)
		if err != nil {
			return fmt.Errorf("look at the directory above the socket's: %w", err)
		}
		stat, ok := info.Sys().(*syscall.Stat_t)
		if !ok || (stat.Uid != 0 && int(stat.Uid) != os.Geteuid()) || (info.Mode().Perm()&0o022 != 0 && info.Mode()&fs.ModeSticky == 0) {
			return fmt.Errorf("the socket's directory %s is below %s, which others may write to; choose another place, such as /run/lanyard", dir, up)
		}
		if up == filepath.Dir(up) {
			return nil
		}
	}
}

// vacate takes away a socket that nobody listens on. Only a refused connection proves that nobody does.
func vacate(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("socket: %w", err)
	case info.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("socket %s: there is a file that is no socket; remove it, or choose another path", path)
	}
	dialer := net.Dialer{Timeout: time.Second}
	conn, err := dialer.DialContext(ctx, "unix", path)
	switch {
	case err == nil:
		_ = conn.Close()
		return fmt.Errorf("socket %s: another process listens on it; stop that one, or choose another path", path)
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, fs.ErrNotExist):
		return nil
	default:
		return fmt.Errorf("socket %s: cannot tell whether anybody listens on it: %w", path, err)
	}
}
