//go:build linux

package jobs

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/test/e2e/house"
)

// TestPoliciesHoldWithoutTheWebhook deletes the webhook's configurations, as whoever may can, and has bob try what the webhook
// would have refused or overwritten: the policies in the API server refuse it, each by its name.
func TestPoliciesHoldWithoutTheWebhook(t *testing.T) {
	h := enter(t)
	alice, bob := h.MustClient(t, house.Alice), h.MustClient(t, house.Bob)
	victim := h.MustSubmit(t, alice, house.Managed, house.Job("victim", "sleep"))
	t.Cleanup(func() {
		if err := h.Upgrade(context.Background(), house.Chart(), ""); err != nil { // puts back what is missing
			t.Errorf("putting the webhook's configurations back: %v", err)
		}
	})
	// By name, not by collection: other people's webhooks stay.
	for _, kind := range []string{"mutatingwebhookconfigurations", "validatingwebhookconfigurations"} {
		out, err := h.Cluster.Kubectl(t.Context(), "delete", kind, "-l", "app.kubernetes.io/instance="+house.Release)
		if err != nil || out == "" {
			t.Fatalf("deleting the %s: %v: %s", kind, err, out)
		}
	}
	pods := map[string]struct {
		change func(*corev1.Pod)
		policy string
	}{
		"a planted identity": {func(p *corev1.Pod) {
			p.Annotations = map[string]string{wire.AnnotationCreatedBy: house.Bob}
			p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "NMP_PRINCIPAL", Value: house.Alice}}
		}, "lanyard-reserved-names"},
		"another's stamp": {func(p *corev1.Pod) {
			p.Annotations = map[string]string{wire.AnnotationCreatedBy: house.Alice}
		}, "lanyard-creator-stamp"},
		"no stamp": {func(*corev1.Pod) {}, "lanyard-creator-required"},
		"a pod of alice's job, forged": {func(p *corev1.Pod) {
			p.Annotations = map[string]string{wire.AnnotationCreatedBy: house.Bob}
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: victim.Name, UID: victim.UID, Controller: new(true)}}
		}, "lanyard-job-pods"},
	}
	for name, tc := range pods {
		t.Run(name, func(t *testing.T) {
			pod := house.Pod("", "sleep")
			pod.GenerateName = "forged-"
			tc.change(pod)
			_, err := bob.CoreV1().Pods(house.Managed).Create(t.Context(), pod, metav1.CreateOptions{})
			forbidden(t, err, tc.policy)
		})
	}
	t.Run("a token of jobs where nothing is managed", func(t *testing.T) {
		pod := house.Pod("hand-made", "sleep")
		pod.Spec.Volumes = []corev1.Volume{{Name: "mine", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
			Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Audience: "nemo-platform", Path: "t"}}},
		}}}}
		_, err := bob.CoreV1().Pods(house.Listed).Create(t.Context(), pod, metav1.CreateOptions{})
		forbidden(t, err, "lanyard-protected-audiences")
	})
	t.Run("a job without a stamp", func(t *testing.T) {
		_, err := bob.BatchV1().Jobs(house.Managed).Create(t.Context(), house.Job("unstamped", "job"), metav1.CreateOptions{})
		forbidden(t, err, "lanyard-creator-required")
	})
	t.Run("a job with alice's stamp", func(t *testing.T) {
		job := house.Job("mine", "job")
		job.Annotations = map[string]string{wire.AnnotationCreatedBy: house.Alice}
		_, err := bob.BatchV1().Jobs(house.Managed).Create(t.Context(), job, metav1.CreateOptions{})
		forbidden(t, err, "lanyard-creator-stamp")
	})
	t.Run("a token by request", func(t *testing.T) {
		out, err := h.Cluster.Kubectl(t.Context(), "create", "token", "default", "-n", house.Managed, "--audience=nemo-platform")
		if err == nil {
			t.Fatal("an admin got a job's token by request")
		}
		if !strings.Contains(out+err.Error(), "lanyard-token-requests") {
			t.Errorf("%v: %s", err, out)
		}
	})
	for _, name := range []string{"unstamped", "mine"} {
		if _, err := h.Admin.BatchV1().Jobs(house.Managed).Get(t.Context(), name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("job %s, which was refused: %v", name, err)
		}
	}
}

func forbidden(t *testing.T, err error, policy string) {
	t.Helper()
	if !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) || !says(err, policy) {
		t.Errorf("got %v, want the refusal of %s", err, policy)
	}
}
