//go:build unix

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/lanyard-k8s/lanyard/test/cluster/nodes"
	"github.com/lanyard-k8s/lanyard/test/cluster/program"
)

// keeper builds the program and returns what runs it with a folder for temporary files of its own, so that it meets no other.
func keeper(t *testing.T) func(args ...string) *exec.Cmd {
	t.Helper()
	tree, err := program.Tree()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "keeper")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	target := filepath.Join(dir, "keeper")
	build := exec.Command("go", "build", "-o", target, "./test/cluster/nodes/keeper")
	build.Dir = tree
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	temporary := filepath.Join(dir, "tmp")
	if err := os.Mkdir(temporary, 0o700); err != nil {
		t.Fatal(err)
	}
	return func(args ...string) *exec.Cmd {
		cmd := exec.Command(target, args...)
		cmd.Env = append(os.Environ(), "TMPDIR="+temporary)
		cmd.Dir = tree
		return cmd
	}
}

func TestWithoutRootItSaysWhyNot(t *testing.T) {
	t.Parallel()
	up, want := keeper(t)("up"), nodes.Unavailable()
	if os.Getuid() == 0 {
		up.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		up.Dir = "/"
		want = "a cluster with real nodes needs root, for namespaces, mounts and cgroups"
	}
	out, err := up.CombinedOutput()
	if up.ProcessState.ExitCode() != 1 {
		t.Errorf("exit code %d (%v), want 1", up.ProcessState.ExitCode(), err)
	}
	if got := string(out); got != "cluster: "+want+"\n" {
		t.Errorf("it says %q, want %q", got, want)
	}
}

func TestWithoutAClusterItSaysSo(t *testing.T) {
	t.Parallel()
	run := keeper(t)
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"loading":                     {[]string{"load", "image.tar"}, "cluster: no cluster is running; `make cluster-up` starts one\n"},
		"loading nothing":             {[]string{"load", ""}, "cluster: no image given, as in make cluster-load IMAGE=dist/lanyard-amd64.tar\n"},
		"ending":                      {[]string{"down"}, "no cluster is running\n"},
		"something that it cannot do": {[]string{"dance"}, "cluster: no command \"dance\"; there are up, load and down\n"},
	} {
		t.Run(name, func(t *testing.T) {
			out, _ := run(tc.args...).CombinedOutput()
			if string(out) != tc.want {
				t.Errorf("it says %q, want %q", out, tc.want)
			}
		})
	}
}

// TestUpAndDown keeps a cluster as a person would: it outlives the command that started it, is found again, takes an image,
// and ends when it is told to.
func TestUpAndDown(t *testing.T) {
	if why := nodes.Unavailable(); why != "" {
		t.Skip("SKIPPED: " + why)
	}
	run := keeper(t)
	t.Cleanup(func() { _ = run("down").Run() })
	image, err := nodes.ProbeImage(t.Context(), t.Output())
	if err != nil {
		t.Fatal(err)
	}
	var kubeconfigs []string
	var folder string
	for range 2 {
		out, err := run("up").CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		_, line, _ := strings.Cut(string(out), "export KUBECONFIG=")
		kubeconfig, _, _ := strings.Cut(line, "\n")
		kubeconfigs = append(kubeconfigs, kubeconfig)
		_, line, _ = strings.Cut(line, "export PATH=")
		folder, _, _ = strings.Cut(line, ":")
	}
	if kubeconfigs[0] != kubeconfigs[1] {
		t.Errorf("the second call gave %s, the first %s", kubeconfigs[1], kubeconfigs[0])
	}
	if _, err := os.Stat(kubeconfigs[0]); err != nil {
		t.Error(err)
	}
	out, err := exec.CommandContext(t.Context(), filepath.Join(folder, "helm"), "version", "--short").CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "v") {
		t.Errorf("helm: %v: %s", err, out)
	}
	kubectl := exec.CommandContext(t.Context(), filepath.Join(folder, "kubectl"), "--kubeconfig="+kubeconfigs[0], "get", "-o=name",
		"persistentvolume/first", "customresourcedefinition/certificates.cert-manager.io")
	if out, err := kubectl.CombinedOutput(); err != nil {
		t.Errorf("the volume and cert-manager: %v: %s", err, out)
	}
	if out, err := run("load", image.Path).CombinedOutput(); err != nil || string(out) != "loaded into node1 and node2\n" {
		t.Errorf("loading: %v: %s", err, out)
	}
	if out, err := run("down").CombinedOutput(); err != nil || string(out) != "the cluster is gone\n" {
		t.Errorf("ending: %v: %s", err, out)
	}
	if _, err := os.Stat(kubeconfigs[0]); err == nil {
		t.Error("the cluster's folder is still there")
	}
}
