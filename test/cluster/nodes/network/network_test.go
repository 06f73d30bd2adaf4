//go:build linux

package network_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/lanyard-k8s/lanyard/test/cluster/filelock"
	"github.com/lanyard-k8s/lanyard/test/cluster/nodes"
	"github.com/lanyard-k8s/lanyard/test/cluster/nodes/network"
	"github.com/lanyard-k8s/lanyard/test/cluster/nodes/slot"
)

// TestMachinesStayWithinReach connects and disconnects a node again and again: this machine must reach the control plane and
// the node that is back at once. Left to the kernel, hardware addresses are drawn anew for each interface, a bridge takes the
// lowest among its ports', and whoever has asked for one within the last half minute goes on sending to where nobody is.
func TestMachinesStayWithinReach(t *testing.T) {
	t.Parallel()
	if why := nodes.Unavailable(); why != "" {
		t.Skip(why)
	}
	p := plan(t)
	t.Cleanup(func() {
		if err := network.Down(context.Background(), p); err != nil {
			t.Error(err)
		}
	})
	if err := network.Up(t.Context(), p, 1); err != nil {
		t.Fatal(err)
	}
	reach(t, "the control plane", p.ControlAddress())
	for range 16 { // the lowest of two is the other one with a chance of a half each time
		if err := network.Connect(t.Context(), p, 1, 1); err != nil {
			t.Fatal(err)
		}
		reach(t, "the control plane, with the node", p.ControlAddress())
		reach(t, "the node", p.NodeAddress(1))
		if err := network.Disconnect(t.Context(), p, 1); err != nil {
			t.Fatal(err)
		}
		reach(t, "the control plane, without the node", p.ControlAddress())
	}
}

// plan is one beyond those that clusters take, held by a lock until the test ends. What a run that was killed has left under its number
// is cleared away.
func plan(t *testing.T) network.Plan {
	t.Helper()
	if err := os.MkdirAll(slot.Base, 0o700); err != nil {
		t.Fatal(err)
	}
	for number := slot.Count; number <= 31; number++ {
		lock, err := filelock.Try(filepath.Join(slot.Base, fmt.Sprintf("slot-%d.lock", number)))
		if errors.Is(err, syscall.EWOULDBLOCK) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = lock.Close() }) // after what stands under the number is gone
		p := network.NewPlan(number)
		if err := network.Down(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		if !p.Clashes() {
			return p
		}
	}
	t.Fatal("no number is free: other tests are running, or their addresses are in use here")
	return network.Plan{}
}

// reach connects to a port that nobody serves: a machine that is there refuses it.
func reach(t *testing.T, what string, a netip.Addr) {
	t.Helper()
	c, err := net.DialTimeout("tcp", netip.AddrPortFrom(a, 1).String(), 5*time.Second)
	if !errors.Is(err, syscall.ECONNREFUSED) {
		if err == nil {
			c.Close()
		}
		t.Fatalf("%s, %s: %v, want %v", what, a, err, syscall.ECONNREFUSED)
	}
}
