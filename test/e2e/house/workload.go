//go:build unix

package house

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/lanyard-k8s/lanyard/test/cluster/nodes"
	"github.com/lanyard-k8s/lanyard/test/cluster/program"
)

// workloadImage builds program workload and packs it as `make image` packs ours. It returns the image's file.
func workloadImage(ctx context.Context, out io.Writer) (string, error) {
	tree, err := program.Tree()
	if err != nil {
		return "", err
	}
	built, err := program.Build(ctx, out, program.Source{
		Name: "workload", Dir: tree, Package: "./test/e2e/workload", LinkFlags: "-s -w", Static: true, Trimpath: true,
	})
	if err != nil {
		return "", err
	}
	repository, tag, _ := strings.Cut(Workload, ":")
	image, err := nodes.Image(ctx, repository, tag, "/workload", built)
	if err != nil {
		return "", fmt.Errorf("packing the workload's image: %w", err)
	}
	return image.Path, nil
}
