//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/lanyard-k8s/lanyard/test/cluster/install"
	"github.com/lanyard-k8s/lanyard/test/cluster/nodes"
)

// volume is a PersistentVolume for the first claim of up to a gibibyte, since nothing in the cluster makes volumes.
const volume = `
apiVersion: v1
kind: PersistentVolume
metadata: {name: first}
spec:
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteOnce]
  local: {path: /var/lib/first}
  nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [node1]}]}]}}
`

// bin is the folder with the programs that people use on the cluster.
func bin(c *nodes.Cluster) string { return filepath.Join(c.Dir(), "bin") }

// furnish gives the cluster what the chart's users have: cert-manager, a volume, and kubectl and helm at hand.
func furnish(ctx context.Context, c *nodes.Cluster) error {
	helm, err := install.BuildHelm(ctx, os.Stdout)
	if err != nil {
		return err
	}
	if err := errors.Join(os.MkdirAll(bin(c), 0o755), os.Symlink(c.ControlPlane().Kubectl(), filepath.Join(bin(c), "kubectl")),
		os.Symlink(helm, filepath.Join(bin(c), "helm"))); err != nil {
		return err
	}
	if out, err := c.InNode(ctx, "node1", "mkdir", "-p", "/var/lib/first"); err != nil {
		return fmt.Errorf("making a folder for a volume: %w: %s", err, out)
	}
	if out, err := c.KubectlInput(ctx, volume, "apply", "-f", "-"); err != nil {
		return fmt.Errorf("making a volume: %w: %s", err, out)
	}
	return nodes.InstallCertManager(ctx, c)
}
