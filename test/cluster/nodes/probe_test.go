//go:build unix

package nodes_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lanyard-k8s/lanyard/test/cluster/nodes"
)

// probeManifest runs the probe on every node, with a token for an audience, a folder of the node and a Service.
const probeManifest = `
apiVersion: v1
kind: ServiceAccount
metadata: {name: probe}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: probe}
spec:
  selector: {matchLabels: {app: probe}}
  template:
    metadata: {labels: {app: probe}}
    spec:
      serviceAccountName: probe
      terminationGracePeriodSeconds: 1
      containers:
      - name: probe
        image: %s
        imagePullPolicy: Never
        args: [serve, ":8080"]
        readinessProbe: {httpGet: {path: /, port: 8080}, periodSeconds: 1}
        securityContext: {readOnlyRootFilesystem: true, runAsUser: 0, capabilities: {drop: [ALL]}, seccompProfile: {type: RuntimeDefault}}
        resources: {limits: {memory: 64Mi}}
        volumeMounts: [{name: token, mountPath: /token}, {name: disk, mountPath: /disk}]
      volumes:
      - name: token
        projected: {sources: [{serviceAccountToken: {audience: broker.example, expirationSeconds: 600, path: token}}]}
      - name: disk
        hostPath: {path: /var/lib/probe, type: DirectoryOrCreate}
---
apiVersion: v1
kind: Service
metadata: {name: probe}
spec: {selector: {app: probe}, ports: [{port: 80, targetPort: 8080}]}
`

// deployProbe runs the probe and waits until it is ready on both nodes.
func deployProbe(t *testing.T, c *nodes.Cluster) {
	t.Helper()
	image, err := nodes.ProbeImage(t.Context(), t.Output())
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Load(t.Context(), image.Path); err != nil {
		t.Fatal(err)
	}
	apply(t, c, fmt.Sprintf(probeManifest, image.Ref()))
	kubectl(t, c, "rollout", "status", "daemonset/probe", "--timeout="+patience.String())
}

// probe runs a command of the probe's in its pod on a node.
func probe(ctx context.Context, t *testing.T, c *nodes.Cluster, node string, args ...string) (string, error) {
	t.Helper()
	out, err := c.Kubectl(ctx, append([]string{"exec", probeOn(t, c, node).Name, "--", "/probe"}, args...)...)
	return strings.TrimSpace(out), err
}

func testPods(t *testing.T, c *nodes.Cluster) {
	for _, node := range nodes.Names() {
		pod := probeOn(t, c, node)
		address, err := c.Address(node)
		if err != nil {
			t.Fatal(err)
		}
		if pod.Status.HostIP != address || pod.Status.PodIP == "" || pod.Status.PodIP == address {
			t.Errorf("%s: the pod is at %s, its node at %s, want a pod's own address and %s", node, pod.Status.PodIP, pod.Status.HostIP, address)
		}
		if log := kubectl(t, c, "logs", pod.Name); log != "" {
			t.Errorf("the pod's log: %s", log)
		}
	}
}

func testServices(t *testing.T, c *nodes.Cluster) {
	service, err := client(t, c).CoreV1().Services("default").Get(t.Context(), "probe", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, node := range nodes.Names() {
		if got, err := probe(t.Context(), t, c, node, "lookup", "probe.default.svc.cluster.local"); err != nil || got != service.Spec.ClusterIP {
			t.Errorf("%s: the Service's name stands for %q (%v), want %s", node, got, err, service.Spec.ClusterIP)
		}
		if got, err := probe(t.Context(), t, c, node, "get", "http://probe/"); err != nil || !strings.HasPrefix(got, "probe-") {
			t.Errorf("%s: a pod got %q (%v) from the Service, want a pod's name", node, got, err)
		}
		if got, err := onNode(t, c, node, "get", "http://"+service.Spec.ClusterIP); err != nil || !strings.HasPrefix(got, "probe-") {
			t.Errorf("%s: the node itself got %q (%v) from the Service, want a pod's name", node, got, err)
		}
	}
	if got, err := fetch(t.Context(), "http://"+service.Spec.ClusterIP); err != nil || !strings.HasPrefix(got, "probe-") {
		t.Errorf("this machine got %q (%v) from the Service, want a pod's name", got, err)
	}
}

// onNode runs the probe on a node itself.
func onNode(t *testing.T, c *nodes.Cluster, node string, args ...string) (string, error) {
	t.Helper()
	path, err := nodes.BuildProbe(t.Context(), t.Output())
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	target := c.NodeDir(node, "opt", "probe")
	if _, err := os.Stat(target); err != nil {
		if err := os.WriteFile(target, program, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return c.InNode(t.Context(), node, append([]string{"/opt/probe"}, args...)...)
}

// fetch gets what a server of the cluster answers to this machine.
func fetch(ctx context.Context, url string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	content, err := io.ReadAll(answer.Body)
	return string(content), err
}

func testAcrossNodes(t *testing.T, c *nodes.Cluster) {
	for _, from := range nodes.Names() {
		for _, to := range nodes.Names() {
			target := probeOn(t, c, to)
			got, err := probe(t.Context(), t, c, from, "get", "http://"+net.JoinHostPort(target.Status.PodIP, "8080"))
			if err != nil || got != target.Name {
				t.Errorf("from %s to %s: got %q (%v), want %s", from, to, got, err, target.Name)
			}
		}
		target := probeOn(t, c, from)
		if got, err := fetch(t.Context(), "http://"+net.JoinHostPort(target.Status.PodIP, "8080")); err != nil || strings.TrimSpace(got) != target.Name {
			t.Errorf("from this machine to %s: got %q (%v), want %s", from, got, err, target.Name)
		}
	}
}

func testGateway(t *testing.T, c *nodes.Cluster) {
	l, err := net.Listen("tcp", net.JoinHostPort(c.Gateway(), "0"))
	if err != nil {
		t.Fatal(err)
	}
	server := &httptest.Server{Listener: l, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "this machine")
	})}}
	server.Start()
	defer server.Close()
	for _, node := range nodes.Names() {
		if got, err := probe(t.Context(), t, c, node, "get", server.URL); err != nil || got != "this machine" {
			t.Errorf("from %s: got %q (%v)", node, got, err)
		}
	}
}

func testSideBySide(t *testing.T, c, other *nodes.Cluster) {
	if c.APIServerURL() == other.APIServerURL() || c.Prefix() == other.Prefix() || c.Dir() == other.Dir() {
		t.Errorf("two clusters share %s, %s or %s", c.APIServerURL(), c.Prefix(), c.Dir())
	}
	if got := kubectl(t, other, "get", "daemonsets", "--output=name"); got != "" {
		t.Errorf("the other cluster has %s", got)
	}
	if got := kubectl(t, other, "get", "nodes", "--output=name"); got != "node/node1\nnode/node2" {
		t.Errorf("the other cluster's nodes are %q", got)
	}
	theirs, err := c.Address("node1")
	if err != nil {
		t.Fatal(err)
	}
	_, err = onNode(t, other, "node1", "get", "http://"+net.JoinHostPort(theirs, "10250"))
	if err == nil || !strings.Contains(err.Error(), "network is unreachable") {
		t.Errorf("a node of the one cluster calling one of the other: %v, want network is unreachable", err)
	}
}
