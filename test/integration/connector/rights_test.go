//go:build linux

package connector

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	healtheventv1 "github.com/lanyard-k8s/lanyard/api/healthevent/v1"
	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/test/cluster"
	"github.com/lanyard-k8s/lanyard/test/timing"
)

// A right that the program uses and the chart does not give is no fault that a test with its own rights can find: a watch that
// is forbidden only makes the connector slower to refuse. So both roles run here as the account of the chart, and the API
// server's audit log is searched for whatever it was refused.

const values = `
publishers: [%[1]s/monitor, %[2]s/monitor]
global: {platformConnectorAuth: {enabled: true, crossNodeServiceAccounts: ["system:serviceaccount:%[1]s:csp-health-monitor"]}}
connector:
  socket: {review: {refreshUnwatchedSeconds: 1}}
  deployment: {enabled: true}
certs: {connectorSecret: lanyard-connector-tls}
`

// none leaves nothing out.
func none(*unstructured.Unstructured) bool { return false }

// refusedWithin removes a pod whose token is known and measures until the token is refused.
func refusedWithin(t *testing.T, h *home, r *running, pod *corev1.Pod, token string, limit time.Duration) {
	t.Helper()
	must(t, r.call(token, ""))
	h.remove(pod, 0)
	start := time.Now()
	timing.Within(t, limit+5*time.Second, "the token is refused", func() bool { return status.Code(r.call(token, "")) == codes.Unauthenticated })
	took := time.Since(start)
	t.Logf("refused %s after its pod was deleted", took)
	if took > limit {
		t.Errorf("refused after %s, want %s", took, limit)
	}
}

// reviewedAgain measures how long a known token is used before it is reviewed for want of a watch.
func reviewedAgain(t *testing.T, r *running, token string) {
	t.Helper()
	must(t, r.call(token, ""))
	const series = `lanyard_connector_reviews_total{cause="fallback",outcome="verified"}`
	before := r.counter(series)
	took := timing.Within(t, 30*time.Second, "the token is reviewed again", func() bool {
		must(t, r.call(token, ""))
		return r.counter(series) > before
	})
	t.Logf("reviewed again after %s", took)
}

// watched is by when a watch has told of a pod's end on the busiest machine. Without one it takes ten seconds and more: for as
// long the API server believes its own reviews.
const watched = 8 * time.Second

// fell is a check that nothing else in these tests reports.
const fell = "GpuFell"

const podsTrusted = `lanyard_connector_watch_trusted{watch="pods"}`

// TestTheSocketRoleWithTheChartsRights runs the DaemonSet's program. One of the namespaces has lost its RoleBinding at first.
func TestTheSocketRoleWithTheChartsRights(t *testing.T) {
	h := shared.home(t)
	bare, elsewhere := h.in(h.namespace+"-bare"), h.in(h.namespace+"-elsewhere")
	for _, other := range []*home{bare, elsewhere} {
		h.space(other.namespace)
		other.account(monitor)
	}
	c := h.chart(wire.AccountSocketConnector, fmt.Sprintf(values, h.namespace, bare.namespace), func(o *unstructured.Unstructured) bool {
		return o.GetKind() == "RoleBinding" && o.GetNamespace() == bare.namespace
	})
	r, user := c.run()

	t.Run("a deleted pod is refused at once, and no other", func(t *testing.T) {
		stays := h.of(h.pod("stays", monitor, h.node.Name))
		must(t, r.call(stays, ""))
		before := r.counter(violation("pod_not_live"))
		pod := h.pod("gone", monitor, h.node.Name)
		refusedWithin(t, h, r, pod, h.of(pod), watched)
		if r.counter(violation("pod_not_live")) == before {
			t.Error("not counted as pod_not_live")
		}
		must(t, r.call(stays, ""))
	})
	t.Run("a pod in a namespace that is not watched is reviewed again, and refused when the API server does", func(t *testing.T) {
		pod := elsewhere.pod("here", monitor, h.node.Name)
		token := elsewhere.of(pod)
		reviewedAgain(t, r, token)
		refusedWithin(t, elsewhere, r, pod, token, time.Minute) // it believes itself for 10 s
	})
	t.Run("so is one in a namespace that may not be watched, until it may", func(t *testing.T) {
		pod := bare.pod("here", monitor, h.node.Name)
		token := bare.of(pod)
		reviewedAgain(t, r, token)
		if r.counter(podsTrusted) != 0 {
			t.Error("the watch of pods is relied on, although one namespace is forbidden")
		}
		c.put(c.find("RoleBinding", bare.namespace, "lanyard-connector-pods"))
		took := timing.Within(t, 20*time.Second, "every watch is relied on", func() bool { return r.counter(podsTrusted) == 1 })
		t.Logf("watched %s after the right was given", took)
		refusedWithin(t, bare, r, pod, token, watched)
	})
	t.Run("its node's condition is written, another's is refused", func(t *testing.T) {
		shows(t, r, h, h.of(h.pod("speaks", monitor, h.node.Name)), h.node.Name)
		err := condition(t.Context(), user, h.away.Name, fell)
		if err == nil || !strings.Contains(err.Error(), wire.PolicyNodeStatus) {
			t.Errorf("another node's condition: %v, want a refusal by %s", err, wire.PolicyNodeStatus)
		}
		csp := h.of(h.pod("csp", listed, h.node.Name))
		must(t, r.report(csp, &healtheventv1.HealthEvent{Version: 1, CheckName: fell, IsFatal: true, NodeName: h.away.Name}))
		timing.Within(t, 10*time.Second, "the sink refuses an event of another node", func() bool {
			return r.counter(`lanyard_connector_sink_events_total{outcome="refused_node",sink="kubernetes"}`) > 0
		})
		if conditionOf(t, h, h.away.Name, fell) != nil {
			t.Error("the other node shows the condition")
		}
	})
	c.holds([]string{"list pods in " + bare.namespace, "watch pods in " + bare.namespace})
}

// TestTheDeploymentRoleWithTheChartsRights runs the Deployment's program.
func TestTheDeploymentRoleWithTheChartsRights(t *testing.T) {
	h := shared.home(t)
	h.space(h.namespace + "-b")
	c := h.chart(wire.AccountDeploymentConnector, fmt.Sprintf(values, h.namespace, h.namespace+"-b"), none)
	r, _ := c.run()
	if r.counter(podsTrusted) != 1 || r.counter(`lanyard_connector_watch_trusted{watch="nodes"}`) != 1 {
		t.Error("a watch is not relied on")
	}
	pod := h.pod("gone", monitor, h.away.Name)
	refusedWithin(t, h, r, pod, h.of(pod), watched)
	shows(t, r, h, h.of(h.pod("speaks", monitor, h.away.Name)), h.away.Name)
	c.holds(nil)
}

// holds fails if the account was refused anything for want of a right, besides what may be, and tells what it asked for.
func (c *chart) holds(besides []string) {
	c.t.Helper()
	logged(c.t, "it asked for", c.requests(func(cluster.AuditEvent) bool { return true }))
	denied := slices.DeleteFunc(c.denied(), func(what string) bool { return slices.Contains(besides, what) })
	if len(denied) > 0 {
		c.t.Errorf("the program does what the chart gives no right to: %q", denied)
	}
}

// shows has a caller report a fatal fault, and another twice that is not fatal, and waits for condition and Event on its node.
func shows(t *testing.T, r *running, h *home, token, node string) {
	t.Helper()
	start := time.Now()
	must(t, r.report(token, &healtheventv1.HealthEvent{Version: 1, CheckName: fell, IsFatal: true, Message: "fell off the bus"}))
	timing.Within(t, 2*time.Minute, "the node shows the condition", func() bool { return conditionOf(t, h, node, fell) != nil })
	t.Logf("the condition stands %s after it was reported", time.Since(start))
	for range 2 {
		must(t, r.report(token, &healtheventv1.HealthEvent{Version: 1, CheckName: "GpuLight", Message: "flickers"}))
	}
	timing.Within(t, 2*time.Minute, "the Event is counted twice", func() bool {
		events, err := h.Admin.CoreV1().Events(metav1.NamespaceDefault).List(t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.kind=Node,involvedObject.name=" + node})
		must(t, err)
		return slices.ContainsFunc(events.Items, func(e corev1.Event) bool { return strings.Contains(e.Message, "flickers") && e.Count == 2 })
	})
}

// report reports one event under a key of its own.
func (r *running) report(token string, e *healtheventv1.HealthEvent) error {
	ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(context.Background(),
		"authorization", "Bearer "+token, "idempotency-key", rand.Text()), 5*time.Second)
	defer cancel()
	_, err := r.client.HealthEventOccurredV1(ctx, &healtheventv1.HealthEvents{Version: 1, Events: []*healtheventv1.HealthEvent{e}})
	return err
}

// conditionOf returns a condition of a node if the connector has written it.
func conditionOf(t *testing.T, h *home, node, kind string) *corev1.NodeCondition {
	t.Helper()
	found, err := h.Admin.CoreV1().Nodes().Get(context.Background(), node, metav1.GetOptions{})
	must(t, err)
	for _, one := range found.Status.Conditions {
		if string(one.Type) == kind && one.Reason == kind+wire.ReasonUnhealthySuffix {
			return &one
		}
	}
	return nil
}
