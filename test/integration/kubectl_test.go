//go:build unix

package integration

import (
	"bytes"
	"errors"
	"os/exec"
	"path/filepath"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/lanyard-k8s/lanyard/test/cluster"
)

// shell is where somebody runs kubectl.
type shell struct{ program, kubeconfig, cache, namespace string }

// printed is what a program has printed, and its exit code.
type printed struct {
	out, complaint string
	code           int
}

// shellOf gives a user a kubectl for a namespace. The administrator's groups need no mention.
func shellOf(t *testing.T, user, namespace string) shell {
	t.Helper()
	cp := controlPlane(t)
	config, err := cp.ConfigFor(user)
	if user == cluster.Admin {
		config, err = cp.Config()
	}
	if err != nil {
		t.Fatal(err)
	}
	const name = "test"
	file := clientcmdapi.NewConfig()
	file.Clusters[name] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: config.CAData}
	file.AuthInfos[name] = &clientcmdapi.AuthInfo{ClientCertificateData: config.CertData, ClientKeyData: config.KeyData}
	file.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name, Namespace: namespace}
	file.CurrentContext = name
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*file, path); err != nil {
		t.Fatal(err)
	}
	return shell{program: cp.Kubectl(), kubeconfig: path, cache: cp.Path("kubectl-cache"), namespace: namespace}
}

// run runs kubectl with this input.
func (s shell) run(t *testing.T, input string, args ...string) printed {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), s.program, append([]string{"--kubeconfig=" + s.kubeconfig, "--cache-dir=" + s.cache}, args...)...)
	cmd.Stdin = bytes.NewBufferString(input)
	var out, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaint
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return printed{out.String(), complaint.String(), cmd.ProcessState.ExitCode()}
}

// must runs kubectl and fails the test unless it succeeds. It returns the standard output.
func (s shell) must(t *testing.T, input string, args ...string) string {
	t.Helper()
	p := s.run(t, input, args...)
	if p.code != 0 {
		t.Fatalf("kubectl %q ends with %d: %s", args, p.code, p.complaint)
	}
	return p.out
}

// refused runs kubectl and fails the test unless it ends with exit code 1 and these words.
func (s shell) refused(t *testing.T, input string, args []string, words ...string) {
	t.Helper()
	p := s.run(t, input, args...)
	if p.code != 1 {
		t.Errorf("kubectl %q ends with %d, want 1: %s", args, p.code, p.complaint)
	}
	said(t, p.complaint, words...)
}
