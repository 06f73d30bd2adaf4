//go:build unix

package nodes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/lanyard-k8s/lanyard/test/cluster"
	"github.com/lanyard-k8s/lanyard/test/cluster/program"
)

// programs are the built programs of a node.
type programs struct {
	// bin is the folder with a link for each of kubelet, kube-proxy and kube-scheduler.
	bin string
	// machine is a node's process 1.
	machine string
	// router is kube-router, which enforces NetworkPolicies.
	router string
	// pause and coredns are images.
	pause, coredns Archive
}

// path returns the path of a component's program.
func (p programs) path(name string) string { return filepath.Join(p.bin, name) }

// buildPrograms builds everything, the control plane's programs included, or finds it built.
func buildPrograms(ctx context.Context, out io.Writer) (p programs, err error) {
	if err := cluster.Build(ctx, out); err != nil {
		return p, err
	}
	tree, err := program.Tree()
	if err != nil {
		return p, err
	}
	if p.bin, err = buildKubernetes(ctx, out, tree); err != nil {
		return p, err
	}
	p.machine, err = program.Build(ctx, out, program.Source{
		Name: "machine", Dir: tree, Package: "./test/cluster/nodes/machine",
		Inputs: []string{"test/cluster/nodes/machine", "test/cluster/nodes/boot"},
	})
	if err != nil {
		return p, err
	}
	if p.router, err = buildRouter(ctx, out, tree); err != nil {
		return p, err
	}
	if p.pause, err = buildPause(ctx, out, tree); err != nil {
		return p, err
	}
	p.coredns, err = buildDNS(ctx, out, tree)
	return p, err
}

// buildKubernetes builds kubelet, kube-proxy and kube-scheduler and returns the folder that they are in.
func buildKubernetes(ctx context.Context, out io.Writer, tree string) (string, error) {
	dir := filepath.Join(tree, "test/cluster/k8s")
	version, err := program.Required(filepath.Join(dir, "go.mod"), "k8s.io/kubernetes")
	if err != nil {
		return "", err
	}
	path, err := program.Build(ctx, out, program.Source{
		Name: "node", Dir: dir, Package: "./node", Inputs: []string{"go.mod", "go.sum", "node"},
		LinkFlags: cluster.LinkVersion(version),
		Hint:      "kubelet, kube-proxy and kube-scheduler " + version + ": a few minutes the first time, nothing later",
	})
	if err != nil {
		return "", err
	}
	for _, name := range []string{kubelet, kubeProxy, string(cluster.Scheduler)} {
		if err := os.Symlink(filepath.Base(path), filepath.Join(filepath.Dir(path), name)); err != nil && !errors.Is(err, os.ErrExist) {
			return "", fmt.Errorf("laying links to the programs: %w", err)
		}
	}
	return filepath.Dir(path), nil
}

// buildPause builds the image that holds a pod's namespaces.
func buildPause(ctx context.Context, out io.Writer, tree string) (Archive, error) {
	path, err := program.Build(ctx, out, program.Source{
		Name: "pause", Dir: tree, Package: "./test/cluster/nodes/pause", Static: true, LinkFlags: "-s -w",
		Inputs: []string{"test/cluster/nodes/pause"},
	})
	if err != nil {
		return Archive{}, err
	}
	return Image(ctx, "lanyard.test/pause", "1", "/pause", path)
}

// buildDNS builds the name server's image.
func buildDNS(ctx context.Context, out io.Writer, tree string) (Archive, error) {
	dir := filepath.Join(tree, "test/cluster/coredns")
	version, err := program.Required(filepath.Join(dir, "go.mod"), "github.com/coredns/coredns")
	if err != nil {
		return Archive{}, err
	}
	path, err := program.Build(ctx, out, program.Source{
		Name: "coredns", Dir: dir, Static: true, LinkFlags: "-s -w", Inputs: []string{"."},
		Hint: "CoreDNS " + version + ": about two minutes the first time, nothing later",
	})
	if err != nil {
		return Archive{}, err
	}
	return Image(ctx, "lanyard.test/coredns", version, "/coredns", path)
}

// buildRouter builds kube-router, of which only the part that enforces NetworkPolicies is used.
func buildRouter(ctx context.Context, out io.Writer, tree string) (string, error) {
	const module = "github.com/cloudnativelabs/kube-router/v2"
	dir := filepath.Join(tree, "test/cluster/kuberouter")
	version, err := program.Required(filepath.Join(dir, "go.mod"), module)
	if err != nil {
		return "", err
	}
	return program.Build(ctx, out, program.Source{
		Name: "kube-router", Dir: dir, Package: module + "/cmd/kube-router", Static: true, LinkFlags: "-s -w", Inputs: []string{"."},
		Hint: "kube-router " + version + ": about two minutes the first time, nothing later",
	})
}
