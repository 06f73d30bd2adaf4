//go:build unix

package house

import (
	"context"
	"fmt"
	"io"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/lanyard-k8s/lanyard/test/cluster/nodes"
)

// start builds everything; what went wrong says in which step.
func (h *House) start(ctx context.Context, out io.Writer) error {
	begin := time.Now()
	var err error
	if h.Cluster, err = nodes.Start(ctx, nodes.Options{Name: h.options.Name, Out: out}); err != nil {
		return fmt.Errorf("starting a cluster with nodes: %w", err)
	}
	if h.Admin, err = kubernetes.NewForConfig(h.Cluster.Config()); err != nil {
		return err
	}
	steps := []struct {
		name string
		do   func(context.Context) error
	}{
		{"building and loading the images", func(ctx context.Context) error { return h.loadImages(ctx, out) }},
		{"installing cert-manager", func(ctx context.Context) error { return nodes.InstallCertManager(ctx, h.Cluster) }},
		{"making namespaces and people", h.settle},
		{"making the exchange's volume", h.MakeVolume},
		{"preparing", h.prepare},
		{"installing the chart", h.installUnlessBare},
	}
	for _, step := range steps {
		began := time.Now()
		if err := step.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
		fmt.Fprintf(out, "house: %s took %s\n", step.name, time.Since(began).Round(100*time.Millisecond))
	}
	fmt.Fprintf(out, "house: ready after %s\n", time.Since(begin).Round(100*time.Millisecond))
	return nil
}

func (h *House) prepare(ctx context.Context) error {
	if h.options.Prepare == nil {
		return nil
	}
	return h.options.Prepare(ctx, h)
}

func (h *House) installUnlessBare(ctx context.Context) error {
	if h.options.Bare {
		return nil
	}
	if err := h.Install(ctx, Chart(), ""); err != nil {
		return err
	}
	return h.Label(ctx)
}
