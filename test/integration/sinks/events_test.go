//go:build unix

package sinks

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/connector/sink"
	"github.com/lanyard-k8s/lanyard/connector/sink/kubernetes"
)

// TestEvents writes core Events as each role's account, whose rights do not include reading them.
func TestEvents(t *testing.T) {
	t.Parallel()
	for name, account := range map[string]string{"as a socket connector": wire.AccountSocketConnector, "as a deployment": wire.AccountDeploymentConnector} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			node := newNode(t, "node-"+account)
			c := connector(t, account, node.Name)
			hot := fatal(node.Name, "GpuTemp", "0")
			hot.IsFatal, hot.Message, hot.Agent = false, "hot\n"+strings.Repeat("x", 2000), "monitor"
			other := fatal(node.Name, "GpuTemp", "1")
			other.IsFatal = false
			s := newSink(t, c, func(o *kubernetes.Options) { o.OwnNode = node.Name })
			deliver(t, s, batch(hot, other, hot), sink.Report{sink.Written: 3})
			deliver(t, s, batch(hot), sink.Report{sink.Written: 1})
			next := newSink(t, c, nil) // another process
			deliver(t, next, batch(hot, hot), sink.Report{sink.Written: 2})
			list, err := admin(t).CoreV1().Events(corev1.NamespaceAll).List(t.Context(), metav1.ListOptions{
				FieldSelector: fields.OneTermEqualSelector("involvedObject.name", node.Name).String(),
			})
			if err != nil {
				t.Fatal(err)
			}
			counts := map[string]int32{}
			for _, e := range list.Items {
				counts[e.Message[:5]] += e.Count
				if e.Type != corev1.EventTypeWarning || e.Reason != "GpuTempIsNotHealthy" || e.InvolvedObject.UID != node.UID || e.Source.Component != "lanyard-connector" {
					t.Errorf("Event %+v", e)
				}
			}
			if diff := cmp.Diff(map[string]int32{"GPU:0": 5, "GPU:1": 1}, counts); diff != "" || len(list.Items) != 2 {
				t.Errorf("%d Events (-want +got):\n%s", len(list.Items), diff)
			}
			if got := messages(stored(t, node.Name)); len(got) > 0 {
				t.Errorf("they became conditions: %v", got)
			}
		})
	}
}
