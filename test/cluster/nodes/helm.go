//go:build unix

package nodes

import (
	"context"
	"fmt"
	"os/exec"
	"strings"

	"github.com/lanyard-k8s/lanyard/test/cluster/install"
)

// Helm runs helm, in the version that go.tools.mod names, as an administrator, and returns what it has printed, complaints
// included. It is built first if need be. What it keeps for itself lies in the cluster's folder.
func (c *Cluster) Helm(ctx context.Context, args ...string) (string, error) {
	path, err := install.BuildHelm(ctx, c.options.Out)
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = append(cmd.Environ(), "KUBECONFIG="+c.admin, "HELM_CACHE_HOME="+c.cp.Path("helm", "cache"),
		"HELM_CONFIG_HOME="+c.cp.Path("helm", "config"), "HELM_DATA_HOME="+c.cp.Path("helm", "data"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("helm %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return string(out), nil
}
