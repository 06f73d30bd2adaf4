//go:build unix

package chart

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/lanyard-k8s/lanyard/api/wire"
)

func TestTheConnectorsEvents(t *testing.T) {
	t.Parallel()
	f := newFenced(t)
	connector, unbound, stranger := f.as(wire.AccountSocketConnector, f.own), f.as(wire.AccountSocketConnector, ""), f.as("monitor", f.own)
	about := func(kind, name string) *corev1.Event {
		return &corev1.Event{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "lanyard-", Namespace: metav1.NamespaceDefault}, Type: corev1.EventTypeWarning, Reason: "GpuXid",
			InvolvedObject: corev1.ObjectReference{Kind: kind, Name: name, APIVersion: "v1"},
		}
	}
	for name, tc := range map[string]struct {
		by    *kubernetes.Clientset
		event *corev1.Event
		want  string
	}{
		"of its own node":             {by: connector, event: about("Node", f.own)},
		"of another node":             {by: connector, event: about("Node", f.other), want: "about nothing else"},
		"of something else":           {by: connector, event: about("ConfigMap", f.own), want: "about nothing else"},
		"by a token bound to nothing": {by: unbound, event: about("Node", f.own), want: "does not name the one node"},
		"by somebody else":            {by: stranger, event: about("Node", f.other)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := tc.by.CoreV1().Events(metav1.NamespaceDefault).Create(t.Context(), tc.event, metav1.CreateOptions{})
			refusedWith(t, err, tc.want)
		})
	}
	t.Run("an event counted once more, and turned on another node", func(t *testing.T) {
		t.Parallel()
		events := connector.CoreV1().Events(metav1.NamespaceDefault)
		event, err := events.Create(t.Context(), about("Node", f.own), metav1.CreateOptions{})
		f.must(err)
		_, err = events.Patch(t.Context(), event.Name, types.MergePatchType, []byte(`{"count":2}`), metav1.PatchOptions{})
		refusedWith(t, err, "")
		_, err = events.Patch(t.Context(), event.Name, types.MergePatchType, []byte(`{"involvedObject":{"name":"`+f.other+`"}}`), metav1.PatchOptions{})
		refusedWith(t, err, "about nothing else")
	})
	t.Run("by way of the newer API", func(t *testing.T) {
		t.Parallel()
		for node, want := range map[string]string{f.own: "", f.other: "about nothing else"} {
			refusedWith(t, f.newEvent(connector, node), want)
		}
	})
}

// newEvent makes an event through events.k8s.io, which is the same storage under other field names.
func (f *fenced) newEvent(by *kubernetes.Clientset, node string) error {
	f.t.Helper()
	_, err := by.EventsV1().Events(metav1.NamespaceDefault).Create(f.t.Context(), &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "lanyard-", Namespace: metav1.NamespaceDefault}, EventTime: metav1.NowMicro(), Type: corev1.EventTypeWarning, Reason: "GpuXid", Action: "Report",
		ReportingController: "lanyard.dev/connector", ReportingInstance: "connector", Regarding: corev1.ObjectReference{Kind: "Node", Name: node, APIVersion: "v1"},
	}, metav1.CreateOptions{})
	return err
}
