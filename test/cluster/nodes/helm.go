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
	said, complaints, err := c.helm(ctx, "", args...)
	return said + complaints, err
}

// helm is Helm with something to read, and with complaints apart.
func (c *Cluster) helm(ctx context.Context, input string, args ...string) (said, complaints string, err error) {
	path, err := install.BuildHelm(ctx, c.options.Out)
	if err != nil {
		return "", "", err
	}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Stdin = strings.NewReader(input)
	cmd.Env = append(cmd.Environ(), "KUBECONFIG="+c.admin, "HELM_CACHE_HOME="+c.cp.Path("helm", "cache"),
		"HELM_CONFIG_HOME="+c.cp.Path("helm", "config"), "HELM_DATA_HOME="+c.cp.Path("helm", "data"))
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), stderr.String(), fmt.Errorf("helm %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), stderr.String(), nil
}
