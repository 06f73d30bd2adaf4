//go:build unix

package nodes

import (
	"context"

	"github.com/lanyard-k8s/lanyard/test/cluster"
	"github.com/lanyard-k8s/lanyard/test/cluster/nodes/boot"
)

// Kill ends a component of the control plane as a power cut does.
func (c *Cluster) Kill(component cluster.Component) error { return c.cp.Kill(component) }

// Pause stops a component of the control plane in its tracks: connections stay open and nothing answers.
func (c *Cluster) Pause(component cluster.Component) error { return c.cp.Pause(component) }

// Resume lets a paused component go on.
func (c *Cluster) Resume(component cluster.Component) error { return c.cp.Resume(component) }

// Restart kills a component of the control plane, if it runs, and starts it again with its data as they were. It waits until
// the API server answers.
func (c *Cluster) Restart(ctx context.Context, component cluster.Component) error {
	return c.cp.Restart(ctx, component)
}

// StopKubelet kills a node's kubelet and lets it be; the node's pods run on.
func (c *Cluster) StopKubelet(name string) error { return c.order(name, boot.Stop, kubelet) }

// StartKubelet starts a node's kubelet, without waiting until it is of use.
func (c *Cluster) StartKubelet(name string) error { return c.order(name, boot.Start, kubelet) }

// order has something done to a daemon of a node.
func (c *Cluster) order(name string, order boot.Order, daemon string) error {
	n, err := c.node(name)
	if err != nil {
		return err
	}
	return boot.Give(n.root(), order, daemon)
}
