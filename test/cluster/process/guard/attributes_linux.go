package main

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// attributes puts the command into a process group of its own and has the kernel kill it should guard itself be killed.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// awaitPaused waits until a child that was told to stop has stopped: a thread that runs goes on until the kernel gets hold of it.
func awaitPaused(pid int) {
	for unix.Waitid(unix.P_PID, pid, nil, unix.WSTOPPED|unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
}
