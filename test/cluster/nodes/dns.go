//go:build unix

package nodes

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"strings"
)

//go:embed coredns.yaml
var corednsManifest string

// startDNS runs the name server, a replica on each node, and waits until both answer.
func (c *Cluster) startDNS(ctx context.Context) error {
	manifest := strings.NewReplacer(
		"@ADDRESS@", c.plan.DNSAddress().String(),
		"@IMAGE@", c.programs.coredns.Ref(),
	).Replace(corednsManifest)
	path := c.cp.Path("coredns.yaml")
	if err := os.WriteFile(path, []byte(manifest), 0o600); err != nil {
		return fmt.Errorf("writing the name server's objects: %w", err)
	}
	if _, err := c.Kubectl(ctx, "apply", "-f", path); err != nil {
		return fmt.Errorf("making the name server: %w", err)
	}
	if _, err := c.Kubectl(ctx, "-n", "kube-system", "rollout", "status", "deployment/coredns", "--timeout=10m"); err != nil {
		pods, _ := c.Kubectl(ctx, "-n", "kube-system", "get", "pods,events", "-o", "wide")
		return fmt.Errorf("waiting for the name server: %w\n%s", err, pods)
	}
	return nil
}
