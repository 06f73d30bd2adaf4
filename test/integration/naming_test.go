//go:build unix

package integration

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lanyard-k8s/lanyard/api/wire"
)

// TestDryRunAnswersLikeTheRealThing asks twice, first without effect. A pod that is named by the server has no name yet
// when our webhook sees it, and one that is named by its author does.
func TestDryRunAnswersLikeTheRealThing(t *testing.T) {
	t.Parallel()
	namespace := managed(t)
	alice := editor(t, "alice", namespace)
	for name, edits := range map[string][]edit{
		"named by the server": nil,
		"named by its author": {func(p *corev1.Pod) { p.Name, p.GenerateName = "named", "" }},
	} {
		t.Run(name, func(t *testing.T) {
			pods := alice.CoreV1().Pods(namespace)
			dry, err := pods.Create(t.Context(), newPod(edits...), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			if err != nil {
				t.Fatal(err)
			}
			if list, err := pods.List(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=" + dry.Name}); err != nil || len(list.Items) > 0 {
				t.Fatalf("a dry run has stored %d pods (%v)", len(list.Items), err)
			}
			real := makePod(t, alice, namespace, edits...)
			if diff := cmp.Diff(real.Spec, dry.Spec); diff != "" {
				t.Errorf("the dry run differs (-real +dry):\n%s", diff)
			}
			if diff := cmp.Diff([]any{real.Labels, real.Annotations}, []any{dry.Labels, dry.Annotations}); diff != "" {
				t.Errorf("the dry run's labels and annotations differ (-real +dry):\n%s", diff)
			}
			if diff := cmp.Diff([]string{"main"}, tokenIn(real, wire.VolumeJob)); diff != "" {
				t.Errorf("containers with the token (-want +got):\n%s", diff)
			}
			if real.Name == "" || !strings.HasPrefix(real.Name, real.GenerateName) {
				t.Errorf("the pod's name is %q", real.Name)
			}
		})
	}
}

// TestDryRunIsRefusedLikeTheRealThing compares what is said of the same fault, for pods and for jobs.
func TestDryRunIsRefusedLikeTheRealThing(t *testing.T) {
	t.Parallel()
	namespace := managed(t)
	alice := editor(t, "alice", namespace)
	dry := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	bad := newPod(setting(wire.EnvPrincipal, "root"))
	bad.Name, bad.GenerateName = "bad", ""
	_, dryErr := alice.CoreV1().Pods(namespace).Create(t.Context(), bad, dry)
	_, err := tryPod(t, alice, namespace, bad)
	refused(t, err, "spec.containers[0].env[0].name", wire.EnvPrincipal)
	if dryErr == nil || dryErr.Error() != err.Error() {
		t.Errorf("a dry run is refused otherwise:\n%v\n%v", dryErr, err)
	}
	job := newJob("bad", setting(wire.EnvPrincipal, "root"))
	_, dryErr = alice.BatchV1().Jobs(namespace).Create(t.Context(), job, dry)
	_, err = alice.BatchV1().Jobs(namespace).Create(t.Context(), job, metav1.CreateOptions{})
	refused(t, err, "spec.template.spec.containers[0].env[0].name", wire.EnvPrincipal)
	if dryErr == nil || dryErr.Error() != err.Error() {
		t.Errorf("a dry run is refused otherwise:\n%v\n%v", dryErr, err)
	}
}
