//go:build unix

// Program guard runs one command and sees to it that the command never outlives the process that asked for it.
//
// The asker holds the other end of guard's standard input. Each line on it is an order: "term" and "kill" end the command,
// "stop" and "cont" pause and resume it. When the pipe closes, because the asker is done or because it died in any way at
// all, kill -9 included, the command and everything that it started is killed. Orders go through the command's own parent,
// so that a process id used again by the system is never signalled. An order that has been carried out is answered by a byte on
// file descriptor 3, if GUARD_ANSWERS is set: the asker then knows that the command is paused, and not only that it will be.
//
// guard ends with the command's exit code, or 128 and the number of the signal that ended it.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
)

// How the asker says that it waits for answers, and where.
const (
	answersAsked = "GUARD_ANSWERS"
	answersFD    = 3
)

func main() {
	// Linux ends a child when the thread that started it ends; locked, that is the main thread, which lasts as long as
	// the process.
	runtime.LockOSThread()
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: guard PROGRAM [ARGUMENT...]")
		os.Exit(2)
	}
	// A signal meant for the asker's terminal is the asker's business; it will send an order, or close the pipe. The
	// signals are taken and dropped, since to ignore them would make the command ignore them, too.
	signal.Notify(make(chan os.Signal, 1), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	var answers io.Writer = io.Discard
	if os.Getenv(answersAsked) != "" {
		syscall.CloseOnExec(answersFD) // the command would keep it open
		answers = os.NewFile(answersFD, "answers")
		_ = os.Unsetenv(answersAsked)
	}
	os.Exit(run(os.Args[1:], os.Stdin, answers))
}

// run starts the command, obeys orders, and returns the exit code to end with.
func run(command []string, orders io.Reader, answers io.Writer) int {
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = attributes()
	if err := cmd.Start(); err != nil {
		fmt.Fprintf(os.Stderr, "guard: starting %s: %v\n", command[0], err)
		return 127
	}
	go obey(orders, answers, cmd.Process.Pid)
	err := cmd.Wait()
	// Whatever the command had started is in its process group and goes with it.
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	return code(err)
}

// obey turns each order into a signal until the pipe closes, which means kill. A request to end is for the command alone,
// which may still need what it has started; the other orders are for its whole process group.
func obey(orders io.Reader, answers io.Writer, pid int) {
	for lines := bufio.NewScanner(orders); lines.Scan(); {
		switch lines.Text() {
		case "term":
			_ = syscall.Kill(pid, syscall.SIGTERM)
		case "kill":
			_ = syscall.Kill(-pid, syscall.SIGKILL)
		case "stop":
			_ = syscall.Kill(-pid, syscall.SIGSTOP)
			awaitPaused(pid)
		case "cont":
			_ = syscall.Kill(-pid, syscall.SIGCONT)
		}
		_, _ = answers.Write([]byte{'\n'})
	}
	_ = syscall.Kill(-pid, syscall.SIGKILL)
}

// code tells a shell's exit code from how the command ended.
func code(err error) int {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case !errors.As(err, &exit):
		return 127
	}
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return exit.ExitCode()
}
