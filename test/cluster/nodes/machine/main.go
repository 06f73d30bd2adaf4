//go:build linux

// Program machine is process 1 of a node: of a process tree that takes itself for a machine of its own. It is started inside
// fresh namespaces for processes, mounts, host name and IPC, and inside the node's network namespace. It makes the node's
// root, gives the node its name, and then starts and stops the node's daemons as it is told over a socket. When it is
// killed, the kernel kills everything on the node at once, as a power cut would.
//
// It takes the path of the node's description (package boot).
package main

import (
	"fmt"
	"net"
	"os"
	"os/signal"
	"syscall"

	"github.com/lanyard-k8s/lanyard/test/cluster/nodes/boot"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: machine SPEC.json")
		os.Exit(2)
	}
	// It only returns when something is wrong.
	fmt.Fprintln(os.Stderr, "machine:", run(os.Args[1]))
	os.Exit(1)
}

// run makes the node and serves orders for as long as it lives.
func run(path string) error {
	// Only the owner of the node ends it, and by SIGKILL. The signals are taken and dropped, since to ignore them would make
	// the daemons and their containers ignore them, too.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	if os.Getpid() != 1 {
		return fmt.Errorf("process %d, not 1: start it in a process namespace of its own", os.Getpid())
	}
	spec, err := boot.Read(path)
	if err != nil {
		return fmt.Errorf("reading the node's description: %w", err)
	}
	if err := syscall.Sethostname([]byte(spec.Hostname)); err != nil {
		return fmt.Errorf("naming the node: %w", err)
	}
	if err := enterRoot(spec); err != nil {
		return err
	}
	if err := setSysctls(); err != nil {
		return err
	}
	// What was there is the socket of the node before its power was cut.
	_ = os.Remove("/" + boot.Socket)
	l, err := net.Listen("unix", "/"+boot.Socket)
	if err != nil {
		return err
	}
	daemons := newSupervisor(spec.Daemons)
	go daemons.reap()
	return boot.Obey(l, daemons.obey)
}
