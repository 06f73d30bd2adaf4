package kubernetes

import (
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"

	healtheventv1 "github.com/lanyard-k8s/lanyard/api/healthevent/v1"
	"github.com/lanyard-k8s/lanyard/connector/nodebinding"
	"github.com/lanyard-k8s/lanyard/connector/sink"
)

// rig is a sink in front of a client that forgets nothing, and a clock that stands still.
type rig struct {
	sink   *Sink
	client *fake.Clientset

	mu  sync.Mutex
	now time.Time
}

func (r *rig) time() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.now
}

func (r *rig) pass(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now = r.now.Add(d)
}

func newRig(t *testing.T, change func(*Options), nodes ...string) *rig {
	t.Helper()
	var objects []runtime.Object
	for _, name := range nodes {
		objects = append(objects, &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, UID: "uid-1", ResourceVersion: "1"},
			Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: "Ready", Status: "True", Reason: "KubeletReady"}}},
		})
	}
	r := &rig{client: fake.NewClientset(objects...), now: time.Unix(1_700_000_000, 0).UTC()}
	o := Options{Client: r.client, Conditions: 64, Writes: 32, Events: 16, Reporter: "node-a", Now: r.time}
	if change != nil {
		change(&o)
	}
	var err error
	if r.sink, err = New(o); err != nil {
		t.Fatal(err)
	}
	return r
}

// refuse makes the API server answer calls with an error, as often as count says; -1 is for ever.
func (r *rig) refuse(verb, resource string, count int, err error) {
	r.client.PrependReactor(verb, resource, func(ktesting.Action) (bool, runtime.Object, error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if count == 0 {
			return false, nil, nil
		}
		count--
		return true, nil, err
	})
}

// calls is what was asked of the API server since the last time, such as "list nodes" or "patch nodes/status".
func (r *rig) calls() []string {
	var out []string
	for _, a := range r.client.Actions() {
		out = append(out, strings.TrimSuffix(a.GetVerb()+" "+a.GetResource().Resource+"/"+a.GetSubresource(), "/"))
	}
	r.client.ClearActions()
	return out
}

// message is a condition as "status message", or nothing.
func (r *rig) condition(t *testing.T, node, typ string) string {
	t.Helper()
	n, err := r.client.CoreV1().Nodes().Get(t.Context(), node, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range n.Status.Conditions {
		if string(c.Type) == typ {
			return string(c.Status) + " " + c.Message
		}
	}
	return ""
}

func batch(username string, events ...*healtheventv1.HealthEvent) sink.Batch {
	return sink.NewBatch(events, sink.Caller{Username: username}, nodebinding.NodeLocal, time.Unix(1_700_000_000, 0))
}

const verified = "system:serviceaccount:gpu:monitor"

// fatal is a fault of a GPU on a node.
func fatal(node, gpu string) *healtheventv1.HealthEvent {
	return &healtheventv1.HealthEvent{
		CheckName: "GpuXid", NodeName: node, IsFatal: true, Message: "off the bus",
		EntitiesImpacted: []*healtheventv1.Entity{{EntityType: "GPU", EntityValue: gpu}},
	}
}

// warning is a fault that is not fatal.
func warning(node, text string) *healtheventv1.HealthEvent {
	return &healtheventv1.HealthEvent{CheckName: "GpuTemp", NodeName: node, Message: text, Agent: "monitor"}
}

func conflict() error {
	return apierrors.NewConflict(schema.GroupResource{Resource: "nodes"}, "node-a", nil)
}
