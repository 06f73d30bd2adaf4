package dockerjob

import (
	"context"
	"fmt"
	"net"
	"net/netip"

	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
)

// defaultBridge is the interface of the default bridge network, if its options name no other.
const defaultBridge, optionBridge = "docker0", "com.docker.network.bridge.name"

// Gateway is the address at which containers of a bridge network reach the machine. An Engine 20.10 that was never restarted names none
// for the default bridge, and containers have one all the same: the address of the bridge's interface.
func (e *Engine) Gateway(ctx context.Context, name string) (netip.Addr, error) {
	got, err := e.c.NetworkInspect(ctx, name, client.NetworkInspectOptions{})
	if err != nil {
		return netip.Addr{}, fmt.Errorf("network %q: %w", name, kind(err))
	}
	for _, c := range got.Network.IPAM.Config {
		if c.Gateway.IsValid() {
			return c.Gateway, nil
		}
	}
	if got.Network.Driver != "bridge" {
		return netip.Addr{}, fmt.Errorf("network %q: it has no gateway; jobs need a bridge network", name)
	}
	at, err := unnamedGateway(got.Network.Network)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("network %q: the Engine names no gateway, and %w", name, err)
	}
	return at, nil
}

// unnamedGateway is the address of the network's interface in its subnet, else the first address of the subnet, which is what the Engine
// takes, if an interface of this machine has it. What is on no interface is nobody's to listen on.
func unnamedGateway(n network.Network) (netip.Addr, error) {
	bridge := n.Options[optionBridge]
	switch {
	case bridge != "":
	case n.Name == "bridge":
		bridge = defaultBridge
	case len(n.ID) >= 12:
		bridge = "br-" + n.ID[:12]
	}
	own := interfaceAddresses(bridge)
	all, err := net.InterfaceAddrs()
	if err != nil {
		return netip.Addr{}, fmt.Errorf("this machine's addresses cannot be read: %w", err)
	}
	machine := addresses(all)
	for _, c := range n.IPAM.Config {
		if !c.Subnet.IsValid() {
			continue
		}
		for _, a := range own {
			if c.Subnet.Contains(a) {
				return a, nil
			}
		}
		first := c.Subnet.Masked().Addr().Next()
		for _, a := range machine {
			if a == first && c.Subnet.Contains(a) {
				return a, nil
			}
		}
	}
	return netip.Addr{}, fmt.Errorf("interface %q of this machine has no address in its subnet", bridge)
}

// interfaceAddresses are an interface's; none if there is no such interface.
func interfaceAddresses(name string) []netip.Addr {
	i, err := net.InterfaceByName(name)
	if err != nil {
		return nil
	}
	found, err := i.Addrs()
	if err != nil {
		return nil
	}
	return addresses(found)
}

func addresses(found []net.Addr) []netip.Addr {
	var all []netip.Addr
	for _, f := range found {
		if n, ok := f.(*net.IPNet); ok {
			if a, ok := netip.AddrFromSlice(n.IP); ok {
				all = append(all, a.Unmap())
			}
		}
	}
	return all
}
