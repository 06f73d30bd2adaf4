//go:build linux

package docker

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// namespace is the file of the Engine's network.
func (e *Engine) namespace() string { return "/proc/" + strconv.Itoa(e.cmd.Process.Pid) + "/ns/net" }

// Listen listens on a TCP address of the Engine's network, such as its Gateway's with port 0: what containers can reach.
func (e *Engine) Listen(ctx context.Context, address string) (net.Listener, error) {
	var l net.Listener
	err := e.inside(func() (err error) {
		l, err = (&net.ListenConfig{}).Listen(ctx, "tcp", address)
		return err
	})
	return l, err
}

// Dial connects to a TCP address of the Engine's network.
func (e *Engine) Dial(ctx context.Context, address string) (net.Conn, error) {
	var c net.Conn
	err := e.inside(func() (err error) {
		c, err = (&net.Dialer{}).DialContext(ctx, "tcp", address)
		return err
	})
	return c, err
}

// Command is a program in the Engine's network, with the machine's files and processes.
func (e *Engine) Command(ctx context.Context, name string, args ...string) *exec.Cmd {
	nsenter, err := locate("nsenter")
	if err != nil {
		nsenter = "nsenter" // starting it says that it is missing
	}
	return exec.CommandContext(ctx, nsenter, append([]string{"--net=" + e.namespace(), "--", name}, args...)...)
}

// inside calls do on a thread that is in the Engine's network. A socket belongs to the network that it was made in.
func (e *Engine) inside(do func() error) error {
	done := make(chan error)
	go func() {
		// The thread is never unlocked, so that it ends with the goroutine and nothing else ever runs in that network.
		runtime.LockOSThread()
		fd, err := unix.Open(e.namespace(), unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err == nil {
			err = unix.Setns(fd, unix.CLONE_NEWNET)
			_ = unix.Close(fd)
		}
		if err != nil {
			done <- fmt.Errorf("enter dockerd's network: %w", err)
			return
		}
		done <- do()
	}()
	return <-done
}
