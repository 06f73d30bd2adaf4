//go:build unix

// Package network joins the control plane and the nodes of a cluster by a network that exists on this machine only: each of
// them is a network namespace, and the control plane's holds the bridge that they are all plugged into, with this machine
// among them. The machine itself gets one interface and three routes; its own packet filter sees nothing of the traffic
// between nodes, and nothing in the cluster has a way out of the machine.
package network

import (
	"fmt"
	"net"
	"net/netip"
)

// Plan is the names and addresses of a cluster, all of which follow from its slot.
type Plan struct {
	slot int
}

// NewPlan returns the plan for a slot, which is at most 31.
func NewPlan(slot int) Plan { return Plan{slot: slot} }

// Prefix begins the name of everything of the cluster's that this machine has: its interface's name whole.
func (p Plan) Prefix() string { return fmt.Sprintf("lanyard%d", p.slot) }

// Control is the name of the control plane's network namespace.
func (p Plan) Control() string { return p.Prefix() + "-control" }

// Node is the name of a node's network namespace, and of its cgroup; nodes count from 1.
func (p Plan) Node(n int) string { return fmt.Sprintf("%s-node%d", p.Prefix(), n) }

// Hardware is the hardware address of the interface that has an address of the machines' network. It follows from that
// address, so that a node which comes back has the one that all others still know it by.
func Hardware(a netip.Addr) net.HardwareAddr {
	four := a.As4()
	return append(net.HardwareAddr{0x02, 0x00}, four[:]...) // 0x02: administered locally
}

// Machines is the network that control plane, nodes and this machine are in.
func (p Plan) Machines() netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 200, byte(p.slot), 0}), 24)
}

// Host is this machine's address in that network, ControlAddress the control plane's, and NodeAddress a node's.
func (p Plan) Host() netip.Addr { return p.machine(1) }

// ControlAddress is the control plane's address.
func (p Plan) ControlAddress() netip.Addr { return p.machine(10) }

// NodeAddress is a node's address.
func (p Plan) NodeAddress(n int) netip.Addr { return p.machine(10 + n) }

func (p Plan) machine(n int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, 200, byte(p.slot), byte(n)})
}

// Pods is the range of all pods' addresses, NodePods the part of it that is on one node.
func (p Plan) Pods() netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 201, byte(8 * p.slot), 0}), 21)
}

// NodePods is the range of the addresses of a node's pods.
func (p Plan) NodePods(n int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 201, byte(8*p.slot + n), 0}), 24)
}

// Services is the range of the Services' addresses, with the API server's own and the name server's in it.
func (p Plan) Services() netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 202, byte(8 * p.slot), 0}), 21)
}

// ServiceAddress is the address of the API server's Service.
func (p Plan) ServiceAddress() netip.Addr { return p.Services().Addr().Next() }

// DNSAddress is the address of the name server's Service.
func (p Plan) DNSAddress() netip.Addr {
	a := p.Services().Addr().As4()
	a[3] = 10
	return netip.AddrFrom4(a)
}

// Clashes says whether this machine has an address in one of the plan's ranges already.
func (p Plan) Clashes() bool {
	addresses, err := net.InterfaceAddrs()
	return err != nil || Overlap([]netip.Prefix{p.Machines(), p.Pods(), p.Services()}, addresses)
}

// Overlap says whether one of the addresses is in one of the ranges, or in a network that is part of one or has one as its
// part.
func Overlap(ranges []netip.Prefix, addresses []net.Addr) bool {
	for _, a := range addresses {
		network, err := netip.ParsePrefix(a.String())
		if err != nil {
			continue
		}
		for _, r := range ranges {
			if r.Overlaps(network.Masked()) {
				return true
			}
		}
	}
	return false
}
