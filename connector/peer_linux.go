package connector

import (
	"net"

	"golang.org/x/sys/unix"
)

// peerUser is the user ID of a Unix socket's other end, as the kernel tells it, or -1.
func peerUser(c net.Conn) int64 {
	if k, ok := c.(*counted); ok {
		c = k.Conn
	}
	u, ok := c.(*net.UnixConn)
	if !ok {
		return -1
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return -1
	}
	user := int64(-1)
	err = raw.Control(func(fd uintptr) {
		if cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			user = int64(cred.Uid)
		}
	})
	if err != nil {
		return -1
	}
	return user
}
