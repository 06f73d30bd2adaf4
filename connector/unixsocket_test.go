package connector

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/lanyard-k8s/lanyard/connector/nodebinding"
	"github.com/lanyard-k8s/lanyard/test/timing"
)

func bind(t *testing.T, path string) (*UnixSocket, *Bound) {
	t.Helper()
	u, err := NewUnixSocket(path, 0o660, -1)
	must(t, err)
	t.Cleanup(func() { _ = u.Close() })
	b, err := u.Bind(t.Context())
	must(t, err)
	t.Cleanup(func() { _ = b.Close() })
	return u, b
}

func TestTheSocketHasItsModeBeforeItsName(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s.sock")
	_, b := bind(t, path)
	info, err := os.Lstat(path)
	must(t, err)
	if info.Mode().Perm() != 0o660 || info.Mode().Type() != fs.ModeSocket {
		t.Errorf("mode = %s", info.Mode())
	}
	if b.Addr().String() != path {
		t.Errorf("address = %s", b.Addr())
	}
	if _, err := os.Lstat(filepath.Join(filepath.Dir(path), ".new.sock")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the temporary name is left: %v", err)
	}
	conn, err := net.Dial("unix", path)
	must(t, err)
	must(t, conn.Close())
}

func TestPathsThatCannotBeServed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	must(t, os.WriteFile(file, nil, 0o600))
	live := filepath.Join(dir, "live.sock")
	l, err := net.Listen("unix", live)
	must(t, err)
	defer l.Close()
	for name, tc := range map[string]struct{ path, want string }{
		"a directory":           {dir, "the path is a directory; name a file in it"},
		"too long":              {filepath.Join(dir, strings.Repeat("x", 108)), "the kernel takes 107; choose a shorter one"},
		"a file":                {file, "there is a file that is no socket; remove it, or choose another path"},
		"somebody else's":       {live, "another process listens on it; stop that one, or choose another path"},
		"in no directory":       {filepath.Join(dir, "no", "s.sock"), "no such file or directory"},
		"below a file, not dir": {filepath.Join(file, "s.sock"), "not a directory"},
	} {
		u, err := NewUnixSocket(tc.path, 0, -1)
		if err == nil {
			_, err = u.Bind(t.Context())
			must(t, u.Close())
		}
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
	if _, err := os.Lstat(live); err != nil {
		t.Errorf("somebody else's socket was touched: %v", err)
	}
}

func TestASecondConnectorIsRefused(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s.sock")
	u, _ := bind(t, path)
	if _, err := NewUnixSocket(path, 0, -1); err == nil || !strings.Contains(err.Error(), "another connector serves it") {
		t.Errorf("second: %v", err)
	}
	must(t, u.Close())
	again, err := NewUnixSocket(path, 0, -1)
	must(t, err)
	must(t, again.Close())
}

func TestALockThatIsALinkIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	must(t, os.Symlink(filepath.Join(dir, "elsewhere"), filepath.Join(dir, "s.sock.lock")))
	if _, err := NewUnixSocket(filepath.Join(dir, "s.sock"), 0, -1); err == nil {
		t.Error("followed a symbolic link")
	}
}

func TestAStaleFileIsReplacedAfterProof(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s.sock")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	must(t, err)
	l.SetUnlinkOnClose(false)
	must(t, l.Close()) // as kill -9 leaves it
	_, b := bind(t, path)
	if !b.Ours() {
		t.Error("the stale file stayed")
	}
}

func TestTheFileGoesOnlyIfItIsOurs(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s.sock")
	_, b := bind(t, path)
	must(t, os.Remove(path))
	must(t, os.WriteFile(path, nil, 0o600))
	must(t, b.Unlink())
	if _, err := os.Lstat(path); err != nil {
		t.Errorf("somebody else's file was removed: %v", err)
	}
	must(t, os.Remove(path))
	must(t, b.Unlink())
}

// TestAReplacedSocketIsBoundAgain takes the path away, then gives it to somebody else.
func TestAReplacedSocketIsBoundAgain(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s.sock")
	u, err := NewUnixSocket(path, 0, -1)
	must(t, err)
	defer u.Close()
	clock := clocktesting.NewFakeClock(time.Unix(1_800_000_000, 0))
	served, replaced := make(chan net.Listener, 8), make(chan struct{}, 8)
	k := &keeper{socket: u, serve: func(l net.Listener) { served <- l }, replaced: func() { replaced <- struct{}{} }, clock: clock, log: logr.Discard()}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- k.run(ctx) }()
	first := timing.Next(t, time.Minute, "the socket is served", served)
	eventually(t, "ready", func() bool { return k.Check() == nil && clock.HasWaiters() })

	must(t, os.Remove(path))
	thief, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	must(t, err)
	thief.SetUnlinkOnClose(false)
	clock.Step(lookEvery)
	timing.Next(t, time.Minute, "it is told that the socket was replaced", replaced)
	if k.Check() == nil {
		t.Error("ready although publishers reach somebody else")
	}
	if _, err := net.Dial("unix", path); err != nil {
		t.Errorf("somebody else's live socket was taken away: %v", err)
	}
	must(t, thief.Close())
	eventually(t, "bound again", func() bool {
		clock.Step(lookEvery)
		return k.Check() == nil
	})
	second := timing.Next(t, time.Minute, "the new socket is served", served)
	accepting := make(chan error, 1)
	go func() {
		_, err := first.Accept()
		accepting <- err
	}()
	if err := timing.Next(t, time.Minute, "the old listener is closed", accepting); !errors.Is(err, net.ErrClosed) {
		t.Errorf("the old listener is open: %v", err)
	}
	conn, err := net.Dial("unix", path)
	must(t, err)
	must(t, conn.Close())
	if len(replaced) != 0 {
		t.Error("one replacement was counted twice")
	}
	cancel()
	must(t, timing.Next(t, time.Minute, "the keeper ends with its context", done))
	must(t, second.Close())
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the file is left: %v", err)
	}
}

func TestStoppingTakesTheFileAway(t *testing.T) {
	t.Parallel()
	g := start(t, nodebinding.Socket)
	must(t, g.call(t, nil, own))
	g.stop()
	if _, err := os.Lstat(g.socket); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the file is left: %v", err)
	}
}
