//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/lanyard-k8s/lanyard/test/cluster/nodes/boot"
)

// restartDelay is how long a daemon that has ended by itself rests before it is started again.
const restartDelay = time.Second

// supervisor runs the daemons, and collects every process of the node that has ended without a parent.
type supervisor struct {
	mu      sync.Mutex
	daemons map[string]*daemon
}

// daemon is one of them; ended is closed when the process with this pid is gone.
type daemon struct {
	boot.Daemon

	name   string
	wanted bool
	pid    int
	ended  chan struct{}
}

func newSupervisor(daemons map[string]boot.Daemon) *supervisor {
	s := &supervisor{daemons: map[string]*daemon{}}
	for name, d := range daemons {
		s.daemons[name] = &daemon{Daemon: d, name: name}
	}
	return s
}

// obey carries out an order.
func (s *supervisor) obey(order boot.Order, name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.daemons[name]
	if d == nil {
		return fmt.Errorf("this node has no daemon %q", name)
	}
	switch order {
	case boot.Start:
		d.wanted = true
		if d.pid != 0 {
			return nil
		}
		return d.start()
	case boot.Stop:
		d.wanted = false
		if d.pid == 0 {
			return nil
		}
		ended := d.ended
		err := syscall.Kill(d.pid, syscall.SIGKILL)
		s.mu.Unlock()
		<-ended
		s.mu.Lock()
		return err
	default:
		return fmt.Errorf("no order is called %q", order)
	}
}

// start starts the process; the supervisor's lock is held, so that its end cannot be noticed before its beginning.
func (d *daemon) start() error {
	log, err := os.OpenFile(filepath.Join("/var/log", d.name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	pid, err := syscall.ForkExec(d.Path, append([]string{d.Path}, d.Args...), &syscall.ProcAttr{
		Dir:   "/",
		Env:   []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/"},
		Files: []uintptr{0, log.Fd(), log.Fd()},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return fmt.Errorf("starting %s: %w", d.Path, err)
	}
	d.pid, d.ended = pid, make(chan struct{})
	return nil
}

// reap waits for the node's processes to end, for as long as the node lives.
func (s *supervisor) reap() {
	children := make(chan os.Signal, 1)
	signal.Notify(children, syscall.SIGCHLD)
	for range children {
		for {
			var status syscall.WaitStatus
			pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
			if errors.Is(err, syscall.EINTR) {
				continue
			}
			if err != nil || pid <= 0 {
				break
			}
			s.noteEnd(pid, status)
		}
	}
}

// noteEnd starts a daemon again that was to go on.
func (s *supervisor) noteEnd(pid int, status syscall.WaitStatus) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range s.daemons {
		if d.pid != pid {
			continue
		}
		d.pid = 0
		close(d.ended)
		fmt.Fprintf(os.Stderr, "machine: %s has ended: exit code %d, signal %d\n", d.name, status.ExitStatus(), status.Signal())
		if d.wanted {
			time.AfterFunc(restartDelay, func() { s.restart(d) })
		}
	}
}

// restart starts a daemon that was not stopped in the meantime.
func (s *supervisor) restart(d *daemon) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !d.wanted || d.pid != 0 {
		return
	}
	if err := d.start(); err != nil {
		fmt.Fprintln(os.Stderr, "machine:", err)
		time.AfterFunc(restartDelay, func() { s.restart(d) })
	}
}
