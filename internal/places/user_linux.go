package places

import (
	"net"

	"golang.org/x/sys/unix"
)

// User asks the kernel who connected to a Unix socket. It is no answer where that cannot be said, and of no other connection.
func User(c net.Conn) (uint32, bool) {
	u, ok := under(c).(*net.UnixConn)
	if !ok {
		return 0, false
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return 0, false
	}
	var cred *unix.Ucred
	var inner error
	err = raw.Control(func(fd uintptr) { cred, inner = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if err != nil || inner != nil {
		return 0, false
	}
	return cred.Uid, true
}
