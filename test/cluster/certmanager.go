//go:build unix

package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lanyard-k8s/lanyard/test/cluster/process"
	"github.com/lanyard-k8s/lanyard/test/cluster/program"
)

// CertManagerNamespace is where cert-manager keeps the Secrets of ClusterIssuers.
const CertManagerNamespace = "cert-manager"

const certManagerModule = "github.com/cert-manager/cert-manager"

// CertManager is a running cert-manager: its controllers and its CA injector, without its webhook.
type CertManager struct {
	process *process.Process
}

// StartCertManager builds cert-manager if need be, installs its resource definitions and runs it against the control plane
// until every cache of its is filled: from then on an Issuer or a Certificate is acted upon at once. Whoever starts it stops
// it before the control plane.
func StartCertManager(ctx context.Context, cp *ControlPlane) (*CertManager, error) {
	path, err := BuildCertManager(ctx, cp.options.Out)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("cert-manager is not ready within %s", startTimeout))
	defer cancel()
	begin := time.Now()
	if err := cp.installCertManager(ctx); err != nil {
		return nil, err
	}
	kubeconfig, err := cp.Kubeconfig(Admin)
	if err != nil {
		return nil, err
	}
	ready := cp.Path("cert-manager-ready")
	if err := os.RemoveAll(ready); err != nil {
		return nil, fmt.Errorf("removing an old mark of cert-manager's readiness: %w", err)
	}
	p, err := cp.StartProcess("cert-manager", path, "-kubeconfig="+kubeconfig, "-ready="+ready,
		"-cluster-resource-namespace="+CertManagerNamespace)
	if err != nil {
		return nil, err
	}
	m := &CertManager{process: p}
	if err := m.await(ctx, ready); err != nil {
		return nil, errors.Join(err, m.Stop(ctx))
	}
	fmt.Fprintf(cp.options.Out, "cert-manager ready after %s\n", time.Since(begin).Round(100*time.Millisecond))
	return m, nil
}

// Stop ends cert-manager. What it has made stays.
func (m *CertManager) Stop(ctx context.Context) error { return m.process.Stop(ctx, stopGrace) }

// Log is the path of the file with what it has written.
func (m *CertManager) Log() string { return m.process.Log() }

// await waits for the mark of readiness.
func (m *CertManager) await(ctx context.Context, ready string) error {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		if _, err := os.Stat(ready); err == nil {
			return nil
		}
		var cause error
		select {
		case <-tick.C:
			continue
		case <-ctx.Done():
			cause = context.Cause(ctx)
		case <-m.process.Done():
			cause = process.ErrEnded
		}
		return fmt.Errorf("starting cert-manager: %w; its log, %s, ends with\n%s", cause, m.process.Log(), m.process.Tail(tailLines))
	}
}

// BuildCertManager builds the program in the folder certmanager, or finds it built, and returns its path.
func BuildCertManager(ctx context.Context, out io.Writer) (string, error) {
	tree, err := program.Tree()
	if err != nil {
		return "", err
	}
	dir := certManagerSource(tree)
	version, err := program.Required(filepath.Join(dir, "go.mod"), certManagerModule)
	if err != nil {
		return "", err
	}
	return program.Build(ctx, out, program.Source{
		Name:      "certmanager",
		Dir:       dir,
		Inputs:    []string{"."},
		Static:    true, // it runs in pods, too
		LinkFlags: "-s -w",
		Hint:      "cert-manager " + version + ": a few minutes the first time, nothing later",
	})
}

// certManagerSource is the folder of the program's module.
func certManagerSource(tree string) string { return filepath.Join(tree, "test/cluster/certmanager") }

// CertManagerModule returns the folder of cert-manager's own source, with its resource definitions and its chart in deploy.
func CertManagerModule(ctx context.Context) (string, error) {
	tree, err := program.Tree()
	if err != nil {
		return "", err
	}
	return program.ModuleDir(ctx, certManagerSource(tree), certManagerModule)
}

// installCertManager applies the resource definitions from cert-manager's module, waits until they are served, and makes
// its namespace.
func (cp *ControlPlane) installCertManager(ctx context.Context) error {
	dir, err := CertManagerModule(ctx)
	if err != nil {
		return err
	}
	crds := filepath.Join(dir, "deploy", "crds")
	for _, args := range [][]string{
		{"apply", "--server-side", "-f", crds},
		{"wait", "--for=condition=Established", "--timeout=4m", "-f", crds},
	} {
		if out, err := cp.runKubectl(ctx, args...); err != nil {
			return fmt.Errorf("installing cert-manager's resource definitions: %w: %s", err, out)
		}
	}
	client, err := cp.client()
	if err != nil {
		return err
	}
	space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: CertManagerNamespace}}
	if _, err := client.CoreV1().Namespaces().Create(ctx, space, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("making cert-manager's namespace: %w", err)
	}
	return nil
}
