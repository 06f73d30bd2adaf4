//go:build unix

package install

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/lanyard-k8s/lanyard/test/cluster/program"
)

// BuildHelm returns the path of helm, in the version that go.tools.mod names.
func BuildHelm(ctx context.Context, out io.Writer) (string, error) {
	tree, err := program.Tree()
	if err != nil {
		return "", err
	}
	version, err := program.Required(filepath.Join(tree, "go.tools.mod"), "helm.sh/helm/v3")
	if err != nil {
		return "", err
	}
	return program.Build(ctx, out, program.Source{
		Name:      "helm",
		Dir:       tree,
		Package:   "helm.sh/helm/v3/cmd/helm",
		Modfile:   "go.tools.mod",
		Inputs:    []string{"go.tools.mod", "go.tools.sum"},
		LinkFlags: "-s -w -X helm.sh/helm/v3/internal/version.version=" + version,
		Hint:      "helm " + version + ": about a minute the first time, nothing later",
	})
}

// Render has helm render the chart for a version of Kubernetes, with values in YAML, and returns what a control plane
// without nodes can use. The certificate authority of the webhook stands where cert-manager would write it; values may say
// otherwise.
func Render(ctx context.Context, helm, version, namespace, values string, ca []byte) (Objects, error) {
	tree, err := program.Tree()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, helm, "template", release, filepath.Join(tree, "charts", "lanyard"),
		"--namespace="+namespace, "--kube-version="+version, "--no-hooks",
		"--set=certManager.enabled=false,certs.existingSecret=lanyard-webhook-tls,certs.exchangeSecret=lanyard-exchange-tls",
		"--set-string=certs.caBundle="+base64.StdEncoding.EncodeToString(ca),
		"--values=-")
	cmd.Stdin = strings.NewReader(values)
	var complaint strings.Builder
	cmd.Stderr = &complaint
	manifest, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("rendering the chart: %w: %s", err, strings.TrimSpace(complaint.String()))
	}
	return decode(manifest)
}
