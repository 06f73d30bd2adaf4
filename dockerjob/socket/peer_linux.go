package socket

import (
	"errors"
	"net"

	"golang.org/x/sys/unix"
)

// peerUID is the effective user of the process that connected, at the moment when it did, as the kernel tells it.
func peerUID(c *net.UnixConn) (uint32, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	var inner error
	if err := raw.Control(func(fd uintptr) { cred, inner = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); err != nil {
		return 0, err
	}
	if inner != nil {
		return 0, inner
	}
	if cred.Uid == noUser {
		return 0, errors.New("the kernel does not know the user")
	}
	return cred.Uid, nil
}

// noUser is what the kernel says where there are no credentials.
const noUser = ^uint32(0)
