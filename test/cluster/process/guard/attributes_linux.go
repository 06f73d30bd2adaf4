package main

import "syscall"

// attributes puts the command into a process group of its own and has the kernel kill it should guard itself be killed.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
