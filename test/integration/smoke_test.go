//go:build unix

package integration

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lanyard-k8s/lanyard/api/wire"
)

func TestLabelledPublisher(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		namespace map[string]string
		want      injection
	}{
		"in a namespace that is open to publishers it gets its token": {
			namespace: map[string]string{wire.LabelPublishers: wire.PublishersEnabled},
			want: injection{
				Volumes: []corev1.Volume{{Name: "platform-connector-token", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
					Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{
						Audience: "platform-connector.nvsentinel.nvidia.com", ExpirationSeconds: new(int64(3600)), Path: "token",
					}}},
					DefaultMode: new(int32(0o644)),
				}}}},
				Mounts: []corev1.VolumeMount{{Name: "platform-connector-token", ReadOnly: true, MountPath: "/var/run/secrets/nvsentinel/platform-connector"}},
				Env:    []corev1.EnvVar{{Name: "PLATFORM_CONNECTOR_TOKEN_PATH", Value: "/var/run/secrets/nvsentinel/platform-connector/token"}},
				Label:  "publisher",
			},
		},
		"in any other namespace it is left as it is": {},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			namespace := newNamespace(t, tc.namespace)
			pod := &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{GenerateName: "monitor-", Labels: map[string]string{wire.LabelRole: wire.RolePublisher}},
				Spec: corev1.PodSpec{
					AutomountServiceAccountToken: new(false),
					Containers:                   []corev1.Container{{Name: "monitor", Image: "registry.example/monitor:1"}},
				},
			}
			stored, err := editor(t, "alice", namespace).CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, injected(stored)); diff != "" {
				t.Errorf("what was injected (-want +got):\n%s", diff)
			}
		})
	}
}

// injection is what a pod of one container has that its author did not write.
type injection struct {
	Volumes []corev1.Volume
	Mounts  []corev1.VolumeMount
	Env     []corev1.EnvVar
	Label   string
}

func injected(pod *corev1.Pod) injection {
	c := pod.Spec.Containers[0]
	return injection{Volumes: pod.Spec.Volumes, Mounts: c.VolumeMounts, Env: c.Env, Label: pod.Labels[wire.LabelInjected]}
}
