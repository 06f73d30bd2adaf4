package client

import (
	"net"

	"golang.org/x/sys/unix"
)

// peerUser is the user of the process that listens at the other end, as the kernel tells it.
func peerUser(c *net.UnixConn) (int64, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	var inner error
	err = raw.Control(func(fd uintptr) { cred, inner = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if err != nil {
		return 0, err
	}
	if inner != nil {
		return 0, inner
	}
	return int64(cred.Uid), nil
}

// writable says whether this process may write to a directory. A read-only mount keeps root out too.
func writable(dir string) bool {
	return unix.Faccessat(unix.AT_FDCWD, dir, unix.W_OK, unix.AT_EACCESS) == nil
}
