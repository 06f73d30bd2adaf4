//go:build unix

// Package chart renders the chart with the real helm, for the chart's own tests and for whoever needs its objects on a real
// API server. Helm is built once from the version that go.tools.mod pins, and kept outside the tree.
package chart

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/lanyard-k8s/lanyard/test/cluster/install"
	"github.com/lanyard-k8s/lanyard/test/cluster/program"
)

// Namespace is the release's namespace in every rendering.
const Namespace = "lanyard"

// oldest is the oldest Kubernetes that the chart installs on.
const oldest = "1.32.0"

// Helm is a built helm and the chart that it renders.
type Helm struct {
	path  string
	chart string
}

// Find builds helm, or finds it built, telling out how far it is; a nil out builds in silence.
func Find(ctx context.Context, out io.Writer) (Helm, error) {
	tree, err := program.Tree()
	if err != nil {
		return Helm{}, err
	}
	path, err := install.BuildHelm(ctx, out)
	if err != nil {
		return Helm{}, err
	}
	return Helm{path: path, chart: filepath.Join(tree, "charts/lanyard")}, nil
}

// Template renders the chart as `helm template` with further arguments, such as "-f", file, "--set", "a=b". What helm says
// when it refuses is the error's text.
func (h Helm) Template(ctx context.Context, args ...string) ([]byte, error) {
	return h.run(ctx, append([]string{"template", "lanyard", h.chart, "--namespace", Namespace, "--kube-version", oldest}, args...)...)
}

// Lint checks the chart as `helm lint` does; warnings count as faults.
func (h Helm) Lint(ctx context.Context, args ...string) ([]byte, error) {
	return h.run(ctx, append([]string{"lint", h.chart, "--strict", "--namespace", Namespace, "--kube-version", oldest}, args...)...)
}

func (h Helm) run(ctx context.Context, args ...string) ([]byte, error) {
	var out, complaints bytes.Buffer
	cmd := exec.CommandContext(ctx, h.path, args...)
	cmd.Stdout, cmd.Stderr = &out, &complaints
	if err := cmd.Run(); err != nil {
		return out.Bytes(), fmt.Errorf("running helm %s: %w: %s%s", args[0], err, out.String(), strings.TrimSpace(complaints.String()))
	}
	return out.Bytes(), nil
}
