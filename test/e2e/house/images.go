//go:build unix

package house

import (
	"context"
	"io"

	"github.com/lanyard-k8s/lanyard/test/cluster/nodes"
)

// loadImages builds our image and the workload's and loads both into every node.
func (h *House) loadImages(ctx context.Context, out io.Writer) error {
	ours, err := nodes.LanyardImage(ctx, out)
	if err != nil {
		return err
	}
	h.Image = ours.Ref()
	workload, err := workloadImage(ctx, out)
	if err != nil {
		return err
	}
	h.images = []string{ours.Path, workload}
	return h.Cluster.Load(ctx, h.images...)
}
