//go:build unix

package network

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// folder is where the network namespaces have their names. It is not that of iproute2, which would leave a mount of its own
// behind on a machine that had none.
const folder = "/run/lanyard-nodes/net"

// Namespace returns the path of a network namespace by its name.
func Namespace(name string) string { return filepath.Join(folder, name) }

// Enter returns the command that enters a network namespace; a program and its arguments go after it. It is not
// `ip netns exec`, which hides the cgroups by mounting /sys anew.
func Enter(name string) []string { return []string{"nsenter", "--net=" + Namespace(name), "--"} }

// Up makes the network for a number of nodes, of which none is connected yet.
func Up(ctx context.Context, p Plan, nodes int) error {
	return build(ctx, p.Control(), step{"", wire(p)}, step{p.Control(), bridge(p, nodes)}, step{"", hostRoutes(p, nodes)})
}

// Connect gives a node, of so many, a new network namespace and plugs it in.
func Connect(ctx context.Context, p Plan, n, nodes int) error {
	if err := Disconnect(ctx, p, n); err != nil {
		return err
	}
	return build(ctx, p.Node(n), step{p.Control(), plug(p, n)}, step{p.Node(n), node(p, n, nodes)})
}

// Disconnect pulls a node's plug, so that nobody hears of the end of its connections, and takes its namespace's name away:
// the namespace lasts as long as the node's processes.
func Disconnect(ctx context.Context, p Plan, n int) error {
	if _, err := os.Stat(Namespace(p.Node(n))); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return errors.Join(
		batch(ctx, step{p.Control(), []string{"link del " + port(n)}}),
		remove(Namespace(p.Node(n))),
	)
}

// build makes a network namespace and runs the steps that fill it.
func build(ctx context.Context, namespace string, steps ...step) error {
	if err := unshare(ctx, namespace); err != nil {
		return fmt.Errorf("making the network namespace %s: %w", namespace, err)
	}
	for _, s := range steps {
		if err := batch(ctx, s); err != nil {
			return fmt.Errorf("filling the network namespace %s: %w", namespace, err)
		}
	}
	return nil
}

// step is commands of iproute2, in a namespace if it is named.
type step struct {
	namespace string
	commands  []string
}

// unshare makes a network namespace that lasts until its name is taken away.
func unshare(ctx context.Context, name string) error {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(Namespace(name), nil, 0o400); err != nil {
		return err
	}
	out, err := exec.CommandContext(ctx, "unshare", "--net="+Namespace(name), "--", "true").CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

// wire connects this machine.
func wire(p Plan) []string {
	return []string{
		fmt.Sprintf("link add %s address %s type veth peer name host netns %s", p.Prefix(), Hardware(p.Host()), Namespace(p.Control())),
		fmt.Sprintf("addr add %s dev %s", within(p, p.Host()), p.Prefix()),
		fmt.Sprintf("link set %s up", p.Prefix()),
	}
}

// bridge makes the bridge in the control plane's namespace, plugs this machine into it, and points the way to all pods. A
// bridge without a hardware address of its own takes the lowest of its ports': it would change as nodes come and go, and
// nobody reach the control plane until they have forgotten the old one, half a minute later.
func bridge(p Plan, nodes int) []string {
	commands := []string{
		"link set lo up",
		fmt.Sprintf("link add bridge address %s type bridge", Hardware(p.ControlAddress())),
		"link set host master bridge up",
		fmt.Sprintf("addr add %s dev bridge", within(p, p.ControlAddress())),
		"link set bridge up",
	}
	for n := 1; n <= nodes; n++ {
		commands = append(commands, podRoute(p, n))
	}
	return commands
}

// port is the name of a node's port of the bridge.
func port(n int) string { return fmt.Sprintf("node%d", n) }

// plug plugs a node into the bridge.
func plug(p Plan, n int) []string {
	return []string{
		fmt.Sprintf("link add %s type veth peer name eth0 address %s netns %s", port(n), Hardware(p.NodeAddress(n)), Namespace(p.Node(n))),
		fmt.Sprintf("link set %s master bridge up", port(n)),
	}
}

// node gives a node its address and its ways to the pods on the others. The route for Services leads nowhere; without one,
// a connection of the node's own to a Service would fail before kube-proxy's rules see it.
func node(p Plan, n, nodes int) []string {
	commands := []string{
		"link set lo up",
		fmt.Sprintf("addr add %s dev eth0", within(p, p.NodeAddress(n))),
		"link set eth0 up",
		fmt.Sprintf("route add %s dev eth0", p.Services()),
	}
	for other := 1; other <= nodes; other++ {
		if other != n {
			commands = append(commands, podRoute(p, other))
		}
	}
	return commands
}

// hostRoutes lets this machine reach pods directly, and Services by way of the first node.
func hostRoutes(p Plan, nodes int) []string {
	commands := []string{fmt.Sprintf("route replace %s via %s", p.Services(), p.NodeAddress(1))}
	for n := 1; n <= nodes; n++ {
		commands = append(commands, strings.Replace(podRoute(p, n), "add", "replace", 1))
	}
	return commands
}

func podRoute(p Plan, n int) string {
	return fmt.Sprintf("route add %s via %s", p.NodePods(n), p.NodeAddress(n))
}

// within is an address of the machines' network in the form that `ip addr add` takes.
func within(p Plan, a netip.Addr) netip.Prefix { return netip.PrefixFrom(a, p.Machines().Bits()) }

// Down removes all of the network that is there. The interface goes first: a namespace without a name lives on until its
// last process has gone, and its interfaces with it.
func Down(ctx context.Context, p Plan) error {
	var errs []error
	if _, err := os.Stat(filepath.Join("/sys/class/net", p.Prefix())); err == nil {
		errs = append(errs, batch(ctx, step{"", []string{"link del " + p.Prefix()}}))
	}
	found, err := filepath.Glob(filepath.Join(folder, p.Prefix()+"-*"))
	errs = append(errs, err)
	for _, path := range found {
		errs = append(errs, remove(path))
	}
	return errors.Join(errs...)
}

// remove takes a network namespace's name away.
func remove(path string) error {
	if err := syscall.Unmount(path, 0); err != nil && !errors.Is(err, syscall.EINVAL) { // EINVAL: nothing is mounted there
		return fmt.Errorf("removing the network namespace %s: %w", filepath.Base(path), err)
	}
	return os.Remove(path)
}

// batch runs the commands of a step.
func batch(ctx context.Context, s step) error {
	args := []string{"ip", "-batch", "-"}
	if s.namespace != "" {
		args = append(Enter(s.namespace), args...)
	}
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Stdin = strings.NewReader(strings.Join(s.commands, "\n") + "\n")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("ip %s: %w: %s", strings.Join(s.commands, "; "), err, strings.TrimSpace(string(out)))
	}
	return nil
}
