//go:build unix

package sinks

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clientkubernetes "k8s.io/client-go/kubernetes"

	healtheventv1 "github.com/lanyard-k8s/lanyard/api/healthevent/v1"
	"github.com/lanyard-k8s/lanyard/connector/nodebinding"
	"github.com/lanyard-k8s/lanyard/connector/sink"
	"github.com/lanyard-k8s/lanyard/connector/sink/kubernetes"
)

// newSink is the sink in front of a client.
func newSink(t *testing.T, c clientkubernetes.Interface, change func(*kubernetes.Options)) *kubernetes.Sink {
	t.Helper()
	o := kubernetes.Options{Client: c, Conditions: 64, Writes: 600, Events: 600, Reporter: "reporter"}
	if change != nil {
		change(&o)
	}
	s, err := kubernetes.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func batch(events ...*healtheventv1.HealthEvent) sink.Batch {
	return sink.NewBatch(events, sink.Caller{Username: "system:serviceaccount:gpu:monitor"}, nodebinding.NodeLocal, time.Now())
}

// fatal is a fault of a GPU.
func fatal(node, check, gpu string) *healtheventv1.HealthEvent {
	return &healtheventv1.HealthEvent{
		CheckName: check, NodeName: node, IsFatal: true, Message: "off the bus", EntitiesImpacted: []*healtheventv1.Entity{{EntityType: "GPU", EntityValue: gpu}},
	}
}

func deliver(t *testing.T, s sink.Sink, b sink.Batch, want sink.Report) {
	t.Helper()
	got, err := s.Deliver(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
}

func stored(t *testing.T, name string) *corev1.Node {
	t.Helper()
	n, err := admin(t).CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// others are a node without the conditions that bear our reasons, and without what changes at every write.
func others(n *corev1.Node) *corev1.Node {
	n = n.DeepCopy()
	n.ManagedFields, n.ResourceVersion = nil, ""
	var kept []corev1.NodeCondition
	for _, c := range n.Status.Conditions {
		if c.Reason != string(c.Type)+"IsHealthy" && c.Reason != string(c.Type)+"IsNotHealthy" {
			kept = append(kept, c)
		}
	}
	n.Status.Conditions = kept
	return n
}

// messages are the conditions that bear our reasons, by type.
func messages(n *corev1.Node) map[string]string {
	out := map[string]string{}
	for _, c := range n.Status.Conditions {
		if c.Reason == string(c.Type)+"IsHealthy" || c.Reason == string(c.Type)+"IsNotHealthy" {
			out[string(c.Type)] = string(c.Status) + " " + c.Message
		}
	}
	return out
}

// fenced waits until the policy refuses to let a client write to a node of others.
func fenced(t *testing.T, c clientkubernetes.Interface, node string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		_, err := c.CoreV1().Nodes().Patch(ctx, node, types.StrategicMergePatchType, []byte(`{"status":{"conditions":[{"type":"Probe","status":"True","reason":"Probe"}]}}`),
			metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}, "status")
		if apierrors.IsForbidden(err) {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("the policy is not in force: %v", err)
		}
	}
}
