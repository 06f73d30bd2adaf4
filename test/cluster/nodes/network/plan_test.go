//go:build unix

package network_test

import (
	"net"
	"net/netip"
	"testing"

	"github.com/lanyard-k8s/lanyard/test/cluster/nodes/network"
	"github.com/lanyard-k8s/lanyard/test/cluster/nodes/slot"
)

// TestPlansDoNotMeet looks at every pair of ranges of all slots.
func TestPlansDoNotMeet(t *testing.T) {
	t.Parallel()
	seen := map[netip.Prefix]string{}
	for number := range slot.Count {
		p := network.NewPlan(number)
		for what, prefix := range map[string]netip.Prefix{"machines": p.Machines(), "pods": p.Pods(), "services": p.Services()} {
			for other, theirs := range seen {
				if other.Overlaps(prefix) {
					t.Errorf("%s of slot %d, %s, meet %s, %s", what, number, prefix, theirs, other)
				}
			}
			seen[prefix] = p.Prefix() + "'s " + what
		}
	}
}

func TestAPlanHoldsItsAddresses(t *testing.T) {
	t.Parallel()
	for number := range slot.Count {
		p := network.NewPlan(number)
		addresses := map[netip.Addr]string{}
		for what, a := range map[string]netip.Addr{
			"this machine": p.Host(), "control plane": p.ControlAddress(), "node 1": p.NodeAddress(1), "node 2": p.NodeAddress(2),
		} {
			if !p.Machines().Contains(a) || addresses[a] != "" {
				t.Errorf("slot %d: %s has %s, which is not in %s, or that of %s", number, what, a, p.Machines(), addresses[a])
			}
			addresses[a] = what
		}
		for n := 1; n <= 2; n++ {
			if !p.Pods().Overlaps(p.NodePods(n)) || p.Pods().Bits() > p.NodePods(n).Bits() {
				t.Errorf("slot %d: the pods of node %d, %s, are not among all pods, %s", number, n, p.NodePods(n), p.Pods())
			}
		}
		if p.NodePods(1).Overlaps(p.NodePods(2)) {
			t.Errorf("slot %d: the nodes share pods' addresses", number)
		}
		if !p.Services().Contains(p.ServiceAddress()) || !p.Services().Contains(p.DNSAddress()) || p.ServiceAddress() == p.DNSAddress() {
			t.Errorf("slot %d: Services at %s and %s, want two in %s", number, p.ServiceAddress(), p.DNSAddress(), p.Services())
		}
		// Linux takes names of interfaces of up to 15 bytes.
		if len(p.Prefix()) > 15 {
			t.Errorf("slot %d: %s is too long for an interface", number, p.Prefix())
		}
	}
}

// TestAPlanClashesWithTheMachine moves a plan onto an address that this machine is sure to have.
func TestAPlanClashesWithTheMachine(t *testing.T) {
	t.Parallel()
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	if !network.Overlap([]netip.Prefix{netip.MustParsePrefix("127.0.0.0/24")}, addresses) {
		t.Error("127.0.0.0/24 does not clash with the loopback address")
	}
	if network.Overlap([]netip.Prefix{netip.MustParsePrefix("203.0.113.0/24")}, addresses) {
		t.Error("203.0.113.0/24, which is for examples, clashes")
	}
}
