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
		namespace   map[string]string
		want        injection
		wantWarning string
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
		"in any other namespace it is left as it is, with a warning": {
			wantWarning: "label lanyard.dev/role: publisher gives no token here",
		},
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
			alice, heard := hearing(t, "alice", namespace)
			stored, err := alice.CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, injected(stored)); diff != "" {
				t.Errorf("what was injected (-want +got):\n%s", diff)
			}
			if !heard.only(tc.wantWarning) {
				t.Errorf("the warnings are %q, want %q", heard, tc.wantWarning)
			}
		})
	}
}

func TestListedPublisher(t *testing.T) {
	t.Parallel()
	namespace := namedNamespace(t, "lanyard-listed")
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "monitor"}}
	if _, err := admin(t).CoreV1().ServiceAccounts(namespace).Create(t.Context(), account, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	alice := editor(t, "alice", namespace)
	for name, want := range map[string]string{"monitor": "publisher", "default": ""} {
		stored, err := alice.CoreV1().Pods(namespace).Create(t.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "monitor-"},
			Spec: corev1.PodSpec{
				ServiceAccountName: name,
				Containers:         []corev1.Container{{Name: "monitor", Image: "registry.example/monitor:1"}},
			},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if got := stored.Labels[wire.LabelInjected]; got != want {
			t.Errorf("the pod of account %s is injected as %q, want %q", name, got, want)
		}
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
