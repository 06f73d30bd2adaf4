//go:build unix

// Package nodes runs a whole Kubernetes on one machine: the control plane of package cluster, and two real nodes with
// kubelet, containerd, kube-proxy, a pod network, DNS and enforced NetworkPolicies, where pods really run. It needs root on
// Linux and a few of Debian's packages; Unavailable says what is missing.
//
// A node is a process tree in namespaces of its own, with a root of its own (program machine), so that ending one process is
// a power cut. Control plane and nodes have network namespaces of their own (package network). Several clusters run side by
// side (package slot). Nothing of a cluster outlives the process that started it, and what a killed one left in spite of
// that is cleared away by the next.
package nodes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"sync"
	"time"

	"github.com/lanyard-k8s/lanyard/test/cluster"
	"github.com/lanyard-k8s/lanyard/test/cluster/nodes/cgroup"
	"github.com/lanyard-k8s/lanyard/test/cluster/nodes/limits"
	"github.com/lanyard-k8s/lanyard/test/cluster/nodes/network"
	"github.com/lanyard-k8s/lanyard/test/cluster/nodes/slot"
)

// count is how many nodes a cluster has: node1 and node2.
const count = 2

// Names are the names of the nodes.
func Names() []string { return []string{"node1", "node2"} }

// startTimeout bounds the start of a cluster whose programs are built, on a machine that is busy with other things.
const startTimeout = 12 * time.Minute

// Options say how to run a cluster. The zero value is a good one.
type Options struct {
	// Name tells clusters apart in messages; several of one name may run.
	Name string
	// Out is told what is being waited for; nil is silence.
	Out io.Writer
	// APIServerArgs and ControllerArgs are added to the flags of their programs and win over the ones set here.
	APIServerArgs  []string
	ControllerArgs []string
}

// Cluster is a running cluster. Its methods may be called from several goroutines.
type Cluster struct {
	options  Options
	programs programs
	slot     *slot.Slot
	plan     network.Plan
	cp       *cluster.ControlPlane
	admin    string
	nodes    map[string]*node
	stop     sync.Once
	stopped  error
}

// Start builds what is missing, starts a cluster and waits until its nodes are ready and names resolve. Whoever starts it
// stops it. If it does not come up, nothing is left of it but the folder with its logs, which the error names.
func Start(ctx context.Context, options Options) (*Cluster, error) {
	if why := Unavailable(); why != "" {
		return nil, errors.New(why)
	}
	if options.Name == "" {
		options.Name = "cluster"
	}
	if options.Out == nil {
		options.Out = io.Discard
	}
	built, err := buildPrograms(ctx, options.Out)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("not ready within %s", startTimeout))
	defer cancel()
	taken, err := pool().Take()
	if err != nil {
		return nil, err
	}
	c := &Cluster{options: options, programs: built, slot: taken, plan: network.NewPlan(taken.Number()), nodes: map[string]*node{}}
	if err := c.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("starting the cluster %s: %w", options.Name, err), c.abandon())
	}
	return c, nil
}

// start does what Start does once there is a slot.
func (c *Cluster) start(ctx context.Context) error {
	begin := time.Now()
	if err := network.Up(ctx, c.plan, count); err != nil {
		return err
	}
	if err := c.startControlPlane(ctx); err != nil {
		return err
	}
	if err := c.grant(ctx); err != nil {
		return err
	}
	if err := c.startNodes(ctx); err != nil {
		return err
	}
	if err := c.startDNS(ctx); err != nil {
		return err
	}
	c.say("%s: two nodes and DNS ready after %s", c.options.Name, time.Since(begin).Round(100*time.Millisecond))
	return nil
}

// startControlPlane runs etcd, API server, controllers and scheduler in a network namespace that the nodes reach.
func (c *Cluster) startControlPlane(ctx context.Context) error {
	var err error
	c.cp, err = cluster.Start(ctx, cluster.Options{
		Out:            c.options.Out,
		APIServerArgs:  c.options.APIServerArgs,
		ControllerArgs: c.options.ControllerArgs,
		Place: cluster.Place{
			Enter:          network.Enter(c.plan.Control()),
			Address:        c.plan.ControlAddress().AsSlice(),
			Services:       c.plan.Services().String(),
			ServiceAddress: c.plan.ServiceAddress().AsSlice(),
			Scheduler:      c.programs.path(string(cluster.Scheduler)),
		},
	})
	if err != nil {
		return err
	}
	c.admin, err = c.cp.Kubeconfig(cluster.Admin)
	return err
}

// Stop ends the cluster and removes everything of it: processes, mounts, cgroups, interfaces, namespaces, files. Calling it
// again returns what the first call did.
func (c *Cluster) Stop() error {
	c.stop.Do(func() { c.stopped = c.end(func() error { return c.cp.Stop(context.Background()) }) })
	return c.stopped
}

// abandon ends a cluster that did not come up, and leaves its folder to be looked at.
func (c *Cluster) abandon() error {
	c.stop.Do(func() { c.stopped = c.end(func() error { return c.cp.Abandon() }) })
	return c.stopped
}

// end ends nodes and control plane and clears the slot.
func (c *Cluster) end(endControlPlane func() error) error {
	var wait sync.WaitGroup
	ended := make([]error, count)
	for i, name := range Names() {
		if n := c.nodes[name]; n != nil {
			wait.Go(func() { ended[i] = n.powerCut() })
		}
	}
	wait.Wait()
	err := errors.Join(ended...)
	if c.cp != nil {
		err = errors.Join(err, endControlPlane())
	}
	return errors.Join(err, clearSlot(c.slot.Number()), c.slot.Release())
}

// clearSlot removes what the cluster of a slot has on this machine beside its folder.
func clearSlot(number int) error {
	plan := network.NewPlan(number)
	var errs []error
	for n := range count {
		errs = append(errs, cgroup.Remove(plan.Node(n+1)))
	}
	return errors.Join(append(errs, network.Down(context.Background(), plan))...)
}

// Sweep clears away what clusters left behind whose processes were killed. Start does so, too.
func Sweep() error { return pool().Sweep() }

// pool is the slots of this machine. While one is held, the machine's limits are raised.
func pool() slot.Pool {
	note := filepath.Join(slot.Base, "limits")
	return slot.Pool{
		Base:   slot.Base,
		Usable: func(number int) bool { return !network.NewPlan(number).Clashes() },
		Clear:  clearSlot,
		Open:   func() error { return limits.Raise(limits.Sysctls, note) },
		Close:  func() error { return limits.Restore(limits.Sysctls, note) },
	}
}

// say tells the user something.
func (c *Cluster) say(format string, args ...any) { fmt.Fprintf(c.options.Out, format+"\n", args...) }
