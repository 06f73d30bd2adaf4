//go:build unix && !linux

package main

import "syscall"

// attributes puts the command into a process group of its own. Should guard itself be killed, nothing here ends the
// command: only Linux can do that.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}

// awaitPaused does not wait: there is no portable way to.
func awaitPaused(int) {}
