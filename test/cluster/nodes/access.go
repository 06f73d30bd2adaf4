//go:build unix

package nodes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"k8s.io/client-go/rest"

	"github.com/lanyard-k8s/lanyard/test/cluster"
	"github.com/lanyard-k8s/lanyard/test/cluster/nodes/boot"
)

// ErrUnknownNode says that there is no node of this name.
var ErrUnknownNode = errors.New("there is no such node")

// ControlPlane is the cluster's control plane: etcd, API server, controllers and scheduler.
func (c *Cluster) ControlPlane() *cluster.ControlPlane { return c.cp }

// Kubeconfig is the path of the kubeconfig of an administrator.
func (c *Cluster) Kubeconfig() string { return c.admin }

// APIServerURL is where the API server listens.
func (c *Cluster) APIServerURL() string { return c.cp.URL() }

// Dir is the folder of everything that the cluster writes; Stop removes it.
func (c *Cluster) Dir() string { return c.cp.Path() }

// Prefix begins the names of all that this machine has of the cluster: its interface, network namespaces and cgroups.
func (c *Cluster) Prefix() string { return c.plan.Prefix() }

// Gateway is the address of this machine that nodes, pods and the API server reach it by.
func (c *Cluster) Gateway() string { return c.plan.Host().String() }

// Address is the address of a node.
func (c *Cluster) Address(name string) (string, error) {
	n, err := c.node(name)
	if err != nil {
		return "", err
	}
	return n.address(), nil
}

// Config returns what a client needs to act as an administrator.
func (c *Cluster) Config() *rest.Config { return c.ConfigFor(cluster.Admin, "system:masters") }

// ConfigFor returns what a client needs to act as the user in these groups, by a client certificate of the user's own. It
// panics if this machine can make no key.
func (c *Cluster) ConfigFor(user string, groups ...string) *rest.Config {
	config, err := c.cp.ConfigFor(user, groups...)
	if err != nil {
		panic(err)
	}
	return config
}

// Kubectl runs kubectl as an administrator and returns what it has printed, complaints included.
func (c *Cluster) Kubectl(ctx context.Context, args ...string) (string, error) {
	return c.KubectlInput(ctx, "", args...)
}

// KubectlInput is Kubectl with something to read, as in KubectlInput(ctx, manifest, "apply", "-f", "-").
func (c *Cluster) KubectlInput(ctx context.Context, input string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, c.cp.Kubectl(), append([]string{"--kubeconfig=" + c.admin}, args...)...)
	cmd.Stdin = strings.NewReader(input)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return string(out), nil
}

// AuditEvents returns every request that the API server has answered so far.
func (c *Cluster) AuditEvents() ([]cluster.AuditEvent, error) { return c.cp.AuditEvents() }

// NodeDir is the path on this machine of something on a node's disk, as in NodeDir("node1", "var/log/kubelet.log"). What the
// node has in memory, /run above all, is not there.
func (c *Cluster) NodeDir(name string, elements ...string) string {
	return c.cp.Path(append([]string{name}, elements...)...)
}

// InNode runs a program of the node's in all of the node's namespaces, and returns what it has printed, complaints included.
// The node has this machine's /usr; other files come to it by NodeDir.
func (c *Cluster) InNode(ctx context.Context, name string, cmd ...string) (string, error) {
	n, err := c.node(name)
	if err != nil {
		return "", err
	}
	return n.run(ctx, nil, cmd...)
}

// Load loads images from docker-archive tars into every node that is on. It fails if one is off, after the others have got
// them.
func (c *Cluster) Load(ctx context.Context, tars ...string) error {
	var wait sync.WaitGroup
	failed := make([]error, count)
	for i, name := range Names() {
		wait.Go(func() {
			for _, tar := range tars {
				if err := c.nodes[name].load(ctx, tar); err != nil {
					failed[i] = errors.Join(failed[i], err)
				}
			}
		})
	}
	wait.Wait()
	return errors.Join(failed...)
}

// node finds a node by its name.
func (c *Cluster) node(name string) (*node, error) {
	n := c.nodes[name]
	if n == nil {
		return nil, fmt.Errorf("%w: %q; there are %s", ErrUnknownNode, name, strings.Join(Names(), " and "))
	}
	return n, nil
}

// load loads one tar into the node.
func (n *node) load(ctx context.Context, tar string) error {
	f, err := os.Open(tar)
	if err != nil {
		return fmt.Errorf("loading an image: %w", err)
	}
	defer f.Close()
	if _, err := n.run(ctx, f, "ctr", "--namespace=k8s.io", "images", "import", "-"); err != nil {
		return fmt.Errorf("loading %s: %w", filepath.Base(tar), err)
	}
	return nil
}

// run runs a program in the node's namespaces.
func (n *node) run(ctx context.Context, input io.Reader, command ...string) (string, error) {
	pid := n.running()
	if pid == 0 {
		return "", fmt.Errorf("%w: %s", ErrOff, n.name)
	}
	args := append([]string{"--target=" + strconv.Itoa(pid), "--mount", "--uts", "--ipc", "--net", "--pid", "--"}, command...)
	cmd := exec.CommandContext(ctx, "nsenter", args...)
	cmd.Stdin = input
	out, err := cmd.CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("%s on %s: %w: %s", strings.Join(command, " "), n.name, err, strings.TrimSpace(string(out)))
	}
	return string(out), nil
}

// running returns the process id of the node's process 1, or 0 if the node is off.
func (n *node) running() int {
	pid, err := peer(n.root(boot.Socket))
	if err != nil {
		return 0
	}
	return pid
}
