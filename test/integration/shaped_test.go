//go:build unix

package integration

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/lanyard-k8s/lanyard/api/wire"
)

// TestMonitorThatBringsItsOwnToken creates a pod such as NVSentinel's own chart does: the socket's directory at /var/run,
// above our path, and the very projection that we would add. It keeps all of it.
func TestMonitorThatBringsItsOwnToken(t *testing.T) {
	t.Parallel()
	namespace := namedNamespace(t, "lanyard-shaped")
	makeAccount(t, namespace, "monitor")
	directory := corev1.HostPathDirectoryOrCreate
	want := newPod(runningAs("monitor"), func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{
			{Name: "socket", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/var/run/nvsentinel", Type: &directory}}},
			{Name: wire.VolumePublisher, VolumeSource: projected(wire.DefaultPublisherAudience, wire.DefaultPublisherExpirationSeconds)},
		}
		p.Spec.Volumes[1].Projected.DefaultMode = new(int32(0o644))
		p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{
			{Name: "socket", MountPath: "/var/run"},
			{Name: wire.VolumePublisher, MountPath: wire.DefaultPublisherMountPath, ReadOnly: true},
		}
	})
	got, err := tryPod(t, editor(t, "alice", namespace), namespace, want)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want.Spec.Volumes, got.Spec.Volumes); diff != "" {
		t.Errorf("its volumes (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want.Spec.Containers[0].VolumeMounts, got.Spec.Containers[0].VolumeMounts); diff != "" {
		t.Errorf("its mounts (-want +got):\n%s", diff)
	}
	added := []any{len(got.Spec.Containers[0].Env), got.Labels, got.Annotations}
	if diff := cmp.Diff([]any{
		0, map[string]string{wire.LabelInjected: "publisher"}, map[string]string{wire.AnnotationPublisherContainers: "main"},
	}, added); diff != "" {
		t.Errorf("variables, labels and annotations (-want +got):\n%s", diff)
	}
}
