//go:build unix

package nodes

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/lanyard-k8s/lanyard/test/cluster/nodes/boot"
	"github.com/lanyard-k8s/lanyard/test/cluster/nodes/cgroup"
	"github.com/lanyard-k8s/lanyard/test/cluster/nodes/network"
	"github.com/lanyard-k8s/lanyard/test/cluster/process"
)

// The daemons of a node, by the names that machines and logs have for them.
const (
	containerd = "containerd"
	kubelet    = "kubelet"
	kubeProxy  = "kube-proxy"
	router     = "kube-router"
)

// ErrOff says that a node's power is cut.
var ErrOff = errors.New("the node is off")

// node is one node; n counts from 1.
type node struct {
	c    *Cluster
	n    int
	name string

	mu      sync.Mutex
	process *process.Process
	pid     int // of program machine, as this machine counts; 0 if the node is off
	loaded  bool
}

// root is the folder that is the node's disk.
func (n *node) root(elements ...string) string {
	return n.c.cp.Path(append([]string{n.name}, elements...)...)
}

// address is the node's address.
func (n *node) address() string { return n.c.plan.NodeAddress(n.n).String() }

// boot switches the node on and starts its daemons. It does not wait until the API server calls the node ready.
func (n *node) boot(ctx context.Context) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.on() {
		return nil
	}
	if err := n.clear(); err != nil { // of a node whose process 1 has ended by itself
		return err
	}
	if err := errors.Join(cgroup.Create(n.c.plan.Node(n.n)), network.Connect(ctx, n.c.plan, n.n, count)); err != nil {
		return err
	}
	enter := network.Enter(n.c.plan.Node(n.n))
	args := append(enter[1:], "unshare", "--fork", "--kill-child", "--pid", "--mount", "--uts", "--ipc", "--",
		n.c.programs.machine, n.c.cp.Path(n.name+".json"))
	p, err := n.c.cp.StartProcess(n.name, enter[0], args...)
	if err != nil {
		return err
	}
	n.process = p
	if err := n.awaitSocket(ctx); err != nil {
		return errors.Join(fmt.Errorf("booting %s: %w; its log, %s, ends with\n%s", n.name, err, p.Log(), p.Tail(15)), p.Kill())
	}
	if err := n.startDaemons(ctx); err != nil {
		return fmt.Errorf("booting %s: %w", n.name, err)
	}
	return nil
}

// awaitSocket waits until process 1 takes orders, and notes its process id.
func (n *node) awaitSocket(ctx context.Context) error {
	return poll(ctx, func() (bool, error) {
		select {
		case <-n.process.Done():
			return false, process.ErrEnded
		default:
		}
		pid, err := peer(n.root(boot.Socket))
		if err == nil {
			n.pid = pid
		}
		return err == nil, nil
	})
}

// startDaemons starts containerd, gives it the images without which no pod runs, and starts the others.
func (n *node) startDaemons(ctx context.Context) error {
	if err := boot.Give(n.root(), boot.Start, containerd); err != nil {
		return err
	}
	err := poll(ctx, func() (bool, error) {
		// The service that kubelets speak to is a plugin; without it, containerd runs and is of no use.
		out, err := n.run(ctx, nil, "ctr", "plugins", "list", "id==cri")
		if err == nil && strings.Contains(out, "error") {
			return false, errors.New("its service for kubelets has not started")
		}
		return err == nil && strings.Contains(out, "ok"), nil
	})
	if err != nil {
		return fmt.Errorf("waiting for containerd: %w; its log, %s, ends with\n%s", err, n.log(containerd), tail(n.log(containerd)))
	}
	if !n.loaded {
		for _, image := range []Archive{n.c.programs.pause, n.c.programs.coredns} {
			if err := n.load(ctx, image.Path); err != nil {
				return err
			}
		}
		n.loaded = true
	}
	for _, daemon := range []string{kubelet, kubeProxy, router} {
		if err := boot.Give(n.root(), boot.Start, daemon); err != nil {
			return err
		}
	}
	return nil
}

// log is the path of the file that a daemon writes to.
func (n *node) log(daemon string) string { return n.root("var/log", daemon+".log") }

// powerCut ends everything on the node at once. Its disk stays as it is.
func (n *node) powerCut() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.clear()
}

// on says whether the node's process 1 runs.
func (n *node) on() bool {
	if n.process == nil {
		return false
	}
	select {
	case <-n.process.Done():
		return false
	default:
		return true
	}
}

// clear ends what runs on the node and removes its cgroup and its network. The plug is pulled first: a machine without
// power does not say goodbye to those that it is connected with.
func (n *node) clear() error {
	if n.process == nil {
		return nil
	}
	unplugging := network.Disconnect(context.Background(), n.c.plan, n.n)
	// When process 1 is gone, the kernel has ended all others before; killing the guard first would leave them to end
	// unseen.
	if n.pid != 0 && n.on() {
		_ = syscall.Kill(n.pid, syscall.SIGKILL)
		timer := time.NewTimer(time.Minute)
		defer timer.Stop()
		select {
		case <-n.process.Done():
		case <-timer.C:
		}
	}
	if err := n.process.Kill(); err != nil && !errors.Is(err, process.ErrEnded) {
		return fmt.Errorf("cutting the power of %s: %w", n.name, err)
	}
	n.process, n.pid = nil, 0
	return errors.Join(unplugging, cgroup.Remove(n.c.plan.Node(n.n)))
}
