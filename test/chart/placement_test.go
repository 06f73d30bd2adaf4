//go:build unix

package chart

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// placed is where a pod may run, and before whom.
type placed struct {
	NodeSelector map[string]string
	Tolerations  []corev1.Toleration
	Affinity     *corev1.Affinity
	Priority     string
}

func placementOf(t *testing.T, o *unstructured.Unstructured) (placed, bool) {
	t.Helper()
	_, spec, found := podOf(t, o)
	if !found {
		return placed{}, false
	}
	return placed{spec.NodeSelector, spec.Tolerations, spec.Affinity, spec.PriorityClassName}, true
}

// TestEveryPodRunsOnLinux: a node of another system cannot run the image, and a mixed cluster has such nodes.
func TestEveryPodRunsOnLinux(t *testing.T) {
	t.Parallel()
	for profile := range profiles(t) {
		for _, o := range render(t, profile, "--set", "webhook.nodeSelector.pool=system") {
			if p, found := placementOf(t, o); found && p.NodeSelector[corev1.LabelOSStable] != string(corev1.Linux) {
				t.Errorf("%s: %s %s may run anywhere: %v", profile, o.GetKind(), o.GetName(), p.NodeSelector)
			}
		}
	}
}

// TestHooksRunWhereTheWebhookRuns: on a cluster whose nodes are all tainted an uninstall hook that tolerates nothing keeps the release
// from being uninstalled.
func TestHooksRunWhereTheWebhookRuns(t *testing.T) {
	t.Parallel()
	objects := render(t, "exchange",
		"--set-json", `webhook.nodeSelector={"pool":"system"}`, "--set-json", `webhook.tolerations=[{"key":"system","operator":"Exists"}]`,
		"--set-json", `webhook.affinity={"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"zone","operator":"Exists"}]}]}}}`,
		"--set", "webhook.priorityClassName=high")
	want, _ := placementOf(t, find(objects, "Deployment", "lanyard-webhook"))
	if want.NodeSelector["pool"] != "system" || len(want.Tolerations) != 1 || want.Affinity == nil || want.Priority != "high" {
		t.Fatalf("the webhook runs elsewhere: %v", want)
	}
	for kind, names := range map[string][]string{"Job": {"lanyard-uninstall", "lanyard-sweep"}, "Pod": {"lanyard-test"}} {
		for _, name := range names {
			got, _ := placementOf(t, find(objects, kind, name))
			want := want
			if kind == "Pod" {
				want.Priority = "" // nobody's work gives way to a test
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-webhook +hook):\n%s", name, diff)
			}
		}
	}
	// The event goes to the connector of the node that the pod runs on, so the pod goes where the connectors are.
	event, _ := placementOf(t, find(objects, "Pod", "lanyard-test-event"))
	if diff := cmp.Diff(placed{NodeSelector: map[string]string{corev1.LabelOSStable: "linux"}}, event); diff != "" {
		t.Errorf("lanyard-test-event (-want +got):\n%s", diff)
	}
}

// TestTheEventIsSentFromWhereTheDeploymentRuns when there is no DaemonSet.
func TestTheEventIsSentFromWhereTheDeploymentRuns(t *testing.T) {
	t.Parallel()
	objects := render(t, "default", "--set", "connector.socket.enabled=false,connector.deployment.enabled=true",
		"--set-json", `connector.deployment.tolerations=[{"key":"system","operator":"Exists"}]`)
	event, found := placementOf(t, find(objects, "Pod", "lanyard-test-event"))
	if !found || len(event.Tolerations) != 1 || event.NodeSelector[corev1.LabelOSStable] != "linux" {
		t.Errorf("the pod runs elsewhere: %v", event)
	}
}
