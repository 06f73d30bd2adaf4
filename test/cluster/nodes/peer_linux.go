package nodes

import (
	"fmt"
	"net"
	"syscall"
)

// peer returns the process id, as this process counts, of who listens on a socket.
func peer(path string) (int, error) {
	c, err := net.Dial("unix", path)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	raw, err := c.(*net.UnixConn).SyscallConn()
	if err != nil {
		return 0, err
	}
	var credentials *syscall.Ucred
	var asking error
	err = raw.Control(func(fd uintptr) {
		credentials, asking = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	})
	if err == nil {
		err = asking
	}
	if err != nil {
		return 0, fmt.Errorf("asking who listens on %s: %w", path, err)
	}
	return int(credentials.Pid), nil
}
