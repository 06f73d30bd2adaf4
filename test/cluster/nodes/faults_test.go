//go:build unix

package nodes_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lanyard-k8s/lanyard/test/cluster"
	"github.com/lanyard-k8s/lanyard/test/cluster/nodes"
)

// policyManifest lets only pods of another label speak to the probe.
const policyManifest = `
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: probe}
spec:
  podSelector: {matchLabels: {app: probe}}
  policyTypes: [Ingress]
  ingress: [{from: [{podSelector: {matchLabels: {app: friend}}}]}]
`

func testNetworkPolicy(t *testing.T, c *nodes.Cluster) {
	target := "http://" + net.JoinHostPort(probeOn(t, c, "node2").Status.PodIP, "8080")
	// The image is the one that the probe runs.
	kubectl(t, c, "run", "friend", "--image="+probeOn(t, c, "node1").Spec.Containers[0].Image, "--image-pull-policy=Never", "--labels=app=friend",
		`--overrides={"spec":{"nodeName":"node1","terminationGracePeriodSeconds":1}}`)
	kubectl(t, c, "wait", "--for=condition=Ready", "--timeout="+patience.String(), "pod/friend")
	apply(t, c, policyManifest)
	await(t, patience, "a pod is kept from a pod that a policy protects", func(ctx context.Context) (bool, string) {
		got, err := probe(ctx, t, c, "node1", "get", target)
		return err != nil && strings.Contains(err.Error(), "connection refused"), got // as kube-router refuses
	})
	if got, err := c.Kubectl(t.Context(), "exec", "friend", "--", "/probe", "get", target); err != nil || !strings.HasPrefix(got, "probe-") {
		t.Errorf("a pod that the policy lets in got %q (%v)", got, err)
	}
	kubectl(t, c, "delete", "networkpolicy/probe", "pod/friend")
	await(t, patience, "without the policy, a pod is let in", func(ctx context.Context) (bool, string) {
		got, err := probe(ctx, t, c, "node1", "get", target)
		return err == nil && strings.HasPrefix(got, "probe-"), got
	})
}

// injectionManifest is an authority of one's own and a webhook configuration that wants it.
const injectionManifest = `
apiVersion: cert-manager.io/v1
kind: Issuer
metadata: {name: self}
spec: {selfSigned: {}}
---
apiVersion: cert-manager.io/v1
kind: Certificate
metadata: {name: authority}
spec: {secretName: authority, commonName: authority, isCA: true, issuerRef: {name: self}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: wanting, annotations: {cert-manager.io/inject-ca-from: default/authority}}
webhooks:
- name: wanting.lanyard.test
  admissionReviewVersions: [v1]
  sideEffects: None
  objectSelector: {matchLabels: {nobody: has}}
  rules: [{apiGroups: [""], apiVersions: [v1], resources: [pods], operations: [CREATE]}]
  clientConfig: {service: {name: none, namespace: default}}
`

func testCertManager(t *testing.T, c *nodes.Cluster) {
	if err := nodes.InstallCertManager(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	apply(t, c, injectionManifest)
	kubectl(t, c, "wait", "--for=condition=Ready", "--timeout="+patience.String(), "certificate/authority")
	want := kubectl(t, c, "get", "secret/authority", `--output=jsonpath={.data.ca\.crt}`)
	await(t, patience, "the authority is in the webhook configuration", func(ctx context.Context) (bool, string) {
		got, err := c.Kubectl(ctx, "get", "validatingwebhookconfiguration/wanting", "--output=jsonpath={.webhooks[0].clientConfig.caBundle}")
		return err == nil && got == want && want != "", got
	})
	kubectl(t, c, "delete", "validatingwebhookconfiguration/wanting", "certificate/authority", "issuer/self")
	if out, err := c.Helm(t.Context(), "list", "--all-namespaces", "--short"); err != nil || out != "" {
		t.Errorf("helm: %q, %v", out, err)
	}
}

func testFaults(t *testing.T, c *nodes.Cluster) {
	if err := c.Pause(cluster.Scheduler); err != nil {
		t.Fatal(err)
	}
	kubectl(t, c, "run", "late", "--image="+probeOn(t, c, "node1").Spec.Containers[0].Image, "--image-pull-policy=Never")
	for _, component := range []cluster.Component{cluster.APIServer, cluster.Etcd, cluster.ControllerManager} {
		if err := c.Restart(t.Context(), component); err != nil {
			t.Fatalf("restarting %s: %v", component, err)
		}
	}
	if node := kubectl(t, c, "get", "pod/late", "--output=jsonpath={.spec.nodeName}"); node != "" {
		t.Errorf("a paused scheduler has sent the pod to %s", node)
	}
	if err := c.Resume(cluster.Scheduler); err != nil {
		t.Fatal(err)
	}
	kubectl(t, c, "wait", "--for=condition=Ready", "--timeout="+patience.String(), "pod/late")
	kubectl(t, c, "delete", "pod/late", "--grace-period=1")
	events, err := c.AuditEvents()
	if err != nil {
		t.Fatal(err)
	}
	bound := false
	for _, e := range events {
		bound = bound || e.ObjectRef.Subresource == "binding" && e.ObjectRef.Name == "late" && e.User.Username == "system:kube-scheduler"
	}
	if !bound {
		t.Error("the audit log does not say that the scheduler has bound the pod")
	}
}

func testStoppedKubelet(t *testing.T, c *nodes.Cluster) {
	pod := probeOn(t, c, "node1")
	if err := c.StopKubelet("node1"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Kubectl(t.Context(), "exec", pod.Name, "--", "/probe", "lookup", "localhost"); err == nil {
		t.Error("the kubelet still serves")
	}
	if got, err := fetch(t.Context(), "http://"+net.JoinHostPort(pod.Status.PodIP, "8080")); err != nil || strings.TrimSpace(got) != pod.Name {
		t.Errorf("without its kubelet the pod answers %q, %v", got, err)
	}
	if err := c.StartKubelet("node1"); err != nil {
		t.Fatal(err)
	}
	await(t, patience, "the kubelet serves again", func(ctx context.Context) (bool, string) {
		got, err := c.Kubectl(ctx, "exec", pod.Name, "--", "/probe", "lookup", "localhost")
		return err == nil, fmt.Sprint(got, err)
	})
}

func testPowerCut(t *testing.T, c *nodes.Cluster) {
	pod := probeOn(t, c, "node2")
	address, err := c.Address("node2")
	if err != nil {
		t.Fatal(err)
	}
	connection, err := net.Dial("tcp", net.JoinHostPort(address, "10250"))
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	if err := c.PowerCut("node2"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.InNode(t.Context(), "node2", "true"); !errors.Is(err, nodes.ErrOff) {
		t.Errorf("a program on a node that is off: %v", err)
	}
	await(t, lost, "node2 counts as lost", func(ctx context.Context) (bool, string) {
		ready := condition(ctx, t, c, "node2")
		return ready.Status == corev1.ConditionUnknown, string(ready.Status)
	})
	// The kubelet has not closed the connection, as it would have done when it ended in order, or was only killed.
	_ = connection.SetReadDeadline(time.Now().Add(time.Second))
	if _, err := connection.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("reading from a node without power: %v, want %v", err, os.ErrDeadlineExceeded)
	}
	await(t, patience, "names resolve while node2 is off", func(ctx context.Context) (bool, string) {
		got, err := probe(ctx, t, c, "node1", "lookup", "probe.default.svc.cluster.local")
		return err == nil && got != "", got
	})
	if err := c.Boot(t.Context(), "node2"); err != nil {
		t.Fatal(err)
	}
	await(t, patience, "the pod runs again", func(ctx context.Context) (bool, string) {
		again := probeOn(t, c, "node2")
		status := again.Status.ContainerStatuses
		return again.UID == pod.UID && len(status) == 1 && status[0].RestartCount == 1 && status[0].Ready, fmt.Sprintf("%+v", status)
	})
	if got, err := probe(t.Context(), t, c, "node2", "cat", "/disk/name"); err != nil || got != "node2" {
		t.Errorf("after the power cut the disk has %q, %v", got, err)
	}
}

// condition is what the API server has to say about a node's readiness.
func condition(ctx context.Context, t *testing.T, c *nodes.Cluster, name string) corev1.NodeCondition {
	t.Helper()
	node, err := client(t, c).CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition
		}
	}
	return corev1.NodeCondition{}
}
