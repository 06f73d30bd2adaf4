package connector

import (
	"net"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/lanyard-k8s/lanyard/connector/nodebinding"
)

// asUser connects to a socket as another user, which root may do for one thread.
func asUser(t *testing.T, uid uintptr, path string) net.Conn {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: only root can connect as another user")
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	become := func(uid uintptr) {
		keep := ^uintptr(0)
		if _, _, err := syscall.RawSyscall(syscall.SYS_SETRESUID, keep, uid, keep); err != 0 {
			t.Fatalf("become user %d: %v", uid, err)
		}
	}
	become(uid)
	conn, err := net.Dial("unix", path)
	become(0)
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// TestT27OneUserKeepsNobodyOut is T27: a user that opens as many connections as there are leaves places for the others.
func TestT27OneUserKeepsNobodyOut(t *testing.T) {
	t.Parallel()
	g := start(t, nodebinding.Socket, func(s *setup) { s.limits.Connections, s.limits.PerUser = 8, 3 })
	must(t, os.Chmod(filepath.Dir(filepath.Dir(g.socket)), 0o755)) // the test's folder is its owner's
	var held []net.Conn
	for range 12 {
		held = append(held, asUser(t, 4711, g.socket))
	}
	eventually(t, "the rest is turned away", func() bool { return g.counts(t, "lanyard_connector_connections_refused_total")[""] == 9 })
	must(t, g.call(t, nil, "")) // root's
	must(t, healtheventOn(t, g.dial(t), nil))
	if got := g.counts(t, "lanyard_connector_connections")[""]; got != 5 {
		t.Errorf("%v connections are open, want the user's three and root's two", got)
	}
	for _, conn := range held {
		must(t, conn.Close())
	}
	eventually(t, "the user's places are free", func() bool { return g.counts(t, "lanyard_connector_connections")[""] == 2 })
	asUser(t, 4711, g.socket)
	eventually(t, "it may connect again", func() bool { return g.counts(t, "lanyard_connector_connections")[""] == 3 })
}
