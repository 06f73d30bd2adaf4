//go:build unix

package nodes

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/lanyard-k8s/lanyard/test/cluster"
)

// certManagerValues are the values that cert-manager's chart is rendered with. One program of ours stands in for both of its
// programs (test/cluster/certmanager); its webhook cannot be built from outside cert-manager and is left out.
const certManagerValues = `
crds: {enabled: true, keep: false}
startupapicheck: {enabled: false}
prometheus: {enabled: false}
livenessProbe: {enabled: false}
image: {repository: %[1]s, tag: %[2]q, pullPolicy: Never}
extraArgs: [-run=controllers]
cainjector:
  image: {repository: %[1]s, tag: %[2]q, pullPolicy: Never}
  extraArgs: [-run=injector]
`

// certManagerTrial is a certificate that shows that cert-manager works.
const certManagerTrial = `
apiVersion: cert-manager.io/v1
kind: Issuer
metadata: {name: trial, namespace: cert-manager}
spec: {selfSigned: {}}
---
apiVersion: cert-manager.io/v1
kind: Certificate
metadata: {name: trial, namespace: cert-manager}
spec: {secretName: trial, commonName: trial, issuerRef: {name: trial}}
`

// InstallCertManager runs cert-manager in the cluster, from its own chart and resource definitions, and waits until it has
// issued a certificate: its controllers and its CA injector, without its webhook.
func InstallCertManager(ctx context.Context, c *Cluster) error {
	begin := time.Now()
	path, err := cluster.BuildCertManager(ctx, c.options.Out)
	if err != nil {
		return err
	}
	sum, err := digest("", "", "", []string{path})
	if err != nil {
		return err
	}
	image, err := Image(ctx, "lanyard.test/cert-manager", sum[:12], "/certmanager", path)
	if err != nil {
		return err
	}
	if err := c.Load(ctx, image.Path); err != nil {
		return err
	}
	if err := c.applyCertManager(ctx, image); err != nil {
		return fmt.Errorf("installing cert-manager: %w", err)
	}
	if err := c.tryCertManager(ctx); err != nil {
		said, _ := c.Kubectl(ctx, "--namespace="+cluster.CertManagerNamespace, "logs", "--all-containers", "--selector=app.kubernetes.io/instance=cert-manager", "--tail=30")
		return fmt.Errorf("trying cert-manager: %w; it has said\n%s", err, said)
	}
	c.say("cert-manager ready after %s", time.Since(begin).Round(100*time.Millisecond))
	return nil
}

// applyCertManager applies what helm renders, but for the webhook and whatever belongs to it.
func (c *Cluster) applyCertManager(ctx context.Context, image Archive) error {
	module, err := cluster.CertManagerModule(ctx)
	if err != nil {
		return err
	}
	manifest, _, err := c.helm(ctx, fmt.Sprintf(certManagerValues, image.Repository, image.Tag), "template", "cert-manager",
		filepath.Join(module, "deploy/charts/cert-manager"), "--namespace="+cluster.CertManagerNamespace,
		"--kube-version="+c.cp.Version(), "--values=-")
	if err != nil {
		return err
	}
	if _, err := c.Kubectl(ctx, "create", "namespace", cluster.CertManagerNamespace); err != nil {
		return err
	}
	_, err = c.KubectlInput(ctx, manifest, "apply", "--server-side", "--selector=app.kubernetes.io/component!=webhook", "-f", "-")
	return err
}

// tryCertManager waits for a certificate, which it then removes.
func (c *Cluster) tryCertManager(ctx context.Context) error {
	_, err := c.Kubectl(ctx, "wait", "--for=condition=Established", "--timeout=5m", "customresourcedefinition", "--selector=app.kubernetes.io/component=crds")
	for _, name := range []string{"cert-manager", "cert-manager-cainjector"} {
		_, waiting := c.Kubectl(ctx, "--namespace="+cluster.CertManagerNamespace, "rollout", "status", "deployment/"+name, "--timeout=5m")
		err = errors.Join(err, waiting)
	}
	if err != nil {
		return err
	}
	if _, err := c.KubectlInput(ctx, certManagerTrial, "apply", "-f", "-"); err != nil {
		return err
	}
	_, err = c.Kubectl(ctx, "--namespace="+cluster.CertManagerNamespace, "wait", "--for=condition=Ready", "--timeout=5m", "certificate/trial")
	if err != nil {
		return err
	}
	if _, err := c.KubectlInput(ctx, certManagerTrial, "delete", "--wait", "-f", "-"); err != nil {
		return err
	}
	_, err = c.Kubectl(ctx, "--namespace="+cluster.CertManagerNamespace, "delete", "secret/trial")
	return err
}
