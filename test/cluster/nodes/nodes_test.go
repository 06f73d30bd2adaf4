//go:build unix

package nodes_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/lanyard-k8s/lanyard/test/cluster/nodes"
)

// patience is how long a test waits for something that takes a moment on an idle machine; lost is how long until a node that
// has gone silent counts as lost, on a busy one.
const (
	patience = 5 * time.Minute
	lost     = 5 * time.Minute
)

// TestCluster starts two clusters side by side and looks at one of them from all sides.
func TestCluster(t *testing.T) {
	skipUnavailable(t)
	before := machineSysctls(t)
	limitsBefore, _, _ := machineLimits(t)
	c, other := start(t), start(t)
	deployProbe(t, c)

	t.Run("pods run on both nodes", func(t *testing.T) { testPods(t, c) })
	t.Run("names and Services work from pods, nodes and this machine", func(t *testing.T) { testServices(t, c) })
	t.Run("pods speak across nodes", func(t *testing.T) { testAcrossNodes(t, c) })
	t.Run("a pod reaches this machine", func(t *testing.T) { testGateway(t, c) })
	t.Run("a kubelet's token names pod and node", func(t *testing.T) { testProjectedToken(t, c) })
	t.Run("a node may not ask for another node's tokens", func(t *testing.T) { testNodeRestriction(t, c) })
	t.Run("each node has disks of its own", func(t *testing.T) { testDisks(t, c) })
	t.Run("what one cluster has the other has not", func(t *testing.T) { testSideBySide(t, c, other) })
	t.Run("NetworkPolicies are enforced", func(t *testing.T) { testNetworkPolicy(t, c) })
	t.Run("cert-manager issues, and writes authorities into webhook configurations", func(t *testing.T) { testCertManager(t, c) })
	t.Run("the control plane's components can be paused and restarted", func(t *testing.T) { testFaults(t, c) })
	t.Run("pods run on without their kubelet", func(t *testing.T) { testStoppedKubelet(t, c) })
	t.Run("a node comes back after a power cut", func(t *testing.T) { testPowerCut(t, c) })
	t.Run("stopping leaves nothing", func(t *testing.T) {
		for _, c := range []*nodes.Cluster{c, other} {
			if err := c.Stop(); err != nil {
				t.Error(err)
			}
			if err := c.Stop(); err != nil {
				t.Errorf("stopping again: %v", err)
			}
			for _, left := range leftovers(t, c.Prefix(), c.Dir()) {
				t.Error("left behind: " + left)
			}
		}
		for name, value := range machineSysctls(t) {
			if value != before[name] {
				t.Errorf("%s was %s and is %s", name, before[name], value)
			}
		}
		limitsAreRestored(t, limitsBefore)
	})
}

// skipUnavailable skips where there can be no cluster.
func skipUnavailable(t *testing.T) {
	t.Helper()
	if why := nodes.Unavailable(); why != "" {
		t.Skip("SKIPPED: " + why)
	}
}

// start starts a cluster that is stopped with the test.
func start(t *testing.T) *nodes.Cluster {
	t.Helper()
	c, err := nodes.Start(t.Context(), nodes.Options{Name: t.Name(), Out: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// machineSysctls are those of the machine's settings that a kubelet or kube-proxy would change.
func machineSysctls(t *testing.T) map[string]string {
	t.Helper()
	values := map[string]string{}
	for _, name := range []string{
		"vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops", "kernel/keys/root_maxkeys",
		"kernel/keys/root_maxbytes", "net/ipv4/ip_forward", "net/ipv4/conf/all/rp_filter", "net/ipv4/conf/all/route_localnet",
	} {
		content, err := os.ReadFile(filepath.Join("/proc/sys", name))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		values[name] = string(bytes.TrimSpace(content))
	}
	return values
}

// leftovers looks for everything that a cluster with this prefix and this folder has, or had, on this machine: interfaces,
// routes, network namespaces, mounts, cgroups, processes and files.
func leftovers(t *testing.T, prefix, dir string) []string {
	t.Helper()
	var found []string
	for _, command := range [][]string{{"ip", "-o", "link"}, {"ip", "route"}, {"cat", "/proc/self/mounts"}, {"ps", "-A", "-ww", "-o", "pid=,args="}} {
		out, err := exec.Command(command[0], command[1:]...).Output()
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(out)) {
			for _, mark := range []string{prefix + "-", prefix + "@", prefix + " ", dir} {
				if strings.Contains(line, mark) {
					found = append(found, strings.TrimSpace(line))
					break
				}
			}
		}
	}
	for _, pattern := range []string{"/sys/fs/cgroup/" + prefix + "-*", "/sys/fs/cgroup/*/" + prefix + "-*", "/run/lanyard-nodes/net/" + prefix + "-*", dir} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, files...)
	}
	return found
}

// client is an administrator's.
func client(t *testing.T, c *nodes.Cluster) *kubernetes.Clientset {
	t.Helper()
	clients, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	return clients
}

// kubectl runs kubectl, which has to succeed.
func kubectl(t *testing.T, c *nodes.Cluster, args ...string) string {
	t.Helper()
	out, err := c.Kubectl(t.Context(), args...)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(out)
}

// apply applies a manifest.
func apply(t *testing.T, c *nodes.Cluster, manifest string) {
	t.Helper()
	if _, err := c.KubectlInput(t.Context(), manifest, "apply", "-f", "-"); err != nil {
		t.Fatal(err)
	}
}

// await asks until the answer is yes, and fails the test with the last answer after a while.
func await(t *testing.T, limit time.Duration, what string, ask func(ctx context.Context) (bool, string)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		ok, said := ask(ctx)
		if ok {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%s: not within %s; last seen: %s", what, limit, said)
		}
	}
}

// probeOn returns the probe's pod on a node.
func probeOn(t *testing.T, c *nodes.Cluster, node string) corev1.Pod {
	t.Helper()
	pods, err := client(t, c).CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{
		LabelSelector: "app=probe", FieldSelector: "spec.nodeName=" + node,
	})
	if err != nil || len(pods.Items) != 1 {
		t.Fatalf("%d probes on %s, want 1: %v", len(pods.Items), node, err)
	}
	return pods.Items[0]
}
