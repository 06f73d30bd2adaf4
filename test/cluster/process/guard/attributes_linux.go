package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// attributes puts the command into a process group of its own and has the kernel kill it should guard itself be killed.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// awaitPaused waits until a child that was told to stop has stopped: a thread that runs goes on until the kernel gets hold of it. One that
// waits in the kernel for something that no signal interrupts is not stopped yet, but does nothing more: it stops before it is back. It may
// wait for ever, as a shell does for the process that it is about to make, if that was stopped before it had begun.
func awaitPaused(pid int) {
	for waits := 0; waits < longHeld; {
		var info unix.Siginfo
		err := unix.Waitid(unix.P_PID, pid, &info, unix.WSTOPPED|unix.WEXITED|unix.WNOWAIT|unix.WNOHANG, nil)
		if err != nil && !errors.Is(err, unix.EINTR) || info.Signo != 0 {
			return
		}
		waits++
		if !held(pid) {
			waits = 0
		}
		time.Sleep(time.Millisecond)
	}
}

// longHeld is how many looks in a row, a millisecond apart, a process must be held in the kernel to count as paused. A page that is read from
// the disk takes less, and then it stops.
const longHeld = 100

// held says whether every thread of a process has stopped, or waits in the kernel for something that no signal interrupts.
func held(pid int) bool {
	stats, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	for _, name := range stats {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended
		}
		state := text[bytes.LastIndexByte(text, ')')+1:] // the name before it may hold anything
		if len(state) < 2 || bytes.IndexByte([]byte("TtDZX"), state[1]) < 0 {
			return false
		}
	}
	return len(stats) > 0
}
