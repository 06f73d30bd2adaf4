//go:build unix

package integration

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/mutate/reserved"
	"github.com/lanyard-k8s/lanyard/test/cluster"
)

// debugger is an ephemeral container.
func debugger(change func(*corev1.EphemeralContainerCommon)) corev1.EphemeralContainer {
	c := corev1.EphemeralContainer{EphemeralContainerCommon: corev1.EphemeralContainerCommon{
		Name: "debugger", Image: "registry.example/tools:1", ImagePullPolicy: corev1.PullIfNotPresent,
		TerminationMessagePolicy: corev1.TerminationMessageReadFile,
	}}
	if change != nil {
		change(&c.EphemeralContainerCommon)
	}
	return c
}

// addDebugger adds an ephemeral container to a stored pod by its subresource.
func addDebugger(t *testing.T, pod *corev1.Pod, change func(*corev1.EphemeralContainerCommon)) (*corev1.Pod, error) {
	t.Helper()
	edited := pod.DeepCopy()
	edited.Spec.EphemeralContainers = append(edited.Spec.EphemeralContainers, debugger(change))
	return admin(t).CoreV1().Pods(pod.Namespace).UpdateEphemeralContainers(t.Context(), pod.Name, edited, metav1.UpdateOptions{})
}

// open reads variables from a ConfigMap, with empty entries for these names.
func open(closed []string) func(*corev1.EphemeralContainerCommon) {
	return func(c *corev1.EphemeralContainerCommon) {
		c.EnvFrom = []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}}}}
		for _, name := range closed {
			c.Env = append(c.Env, corev1.EnvVar{Name: name})
		}
	}
}

func principal(c *corev1.EphemeralContainerCommon) {
	c.Env = []corev1.EnvVar{{Name: wire.EnvPrincipal, Value: "root"}}
}

func mounting(volume, path string) func(*corev1.EphemeralContainerCommon) {
	return func(c *corev1.EphemeralContainerCommon) {
		c.VolumeMounts = []corev1.VolumeMount{{Name: volume, MountPath: path, ReadOnly: true}}
	}
}

// TestDebugContainerOfAJob adds ephemeral containers to a job's pod.
func TestDebugContainerOfAJob(t *testing.T) {
	t.Parallel()
	namespace := managed(t)
	alice := editor(t, "alice", namespace)
	for name, tc := range map[string]struct {
		change func(*corev1.EphemeralContainerCommon)
		want   []string // empty: accepted
	}{
		"a harmless one is accepted":                         {},
		"a reserved variable is refused":                     {principal, []string{"spec.ephemeralContainers[debugger].env[NMP_PRINCIPAL]"}},
		"the token's volume at its own path is refused":      {mounting(wire.VolumeJob, wire.DefaultJobMountPath), []string{"spec.ephemeralContainers[0].volumeMounts[0]", "a debug container may not mount"}},
		"the token's volume at another path is refused":      {mounting(wire.VolumeJob, "/elsewhere"), []string{"spec.ephemeralContainers[0].volumeMounts[0]", "a debug container may not mount"}},
		"envFrom without the empty entries is refused":       {open(nil), []string{"spec.ephemeralContainers[0].env", "envFrom could set NMP_PRINCIPAL"}},
		"envFrom with one empty entry too few is refused":    {open(reserved.Exact()[1:]), []string{"envFrom could set NMP_PRINCIPAL in this container"}},
		"envFrom with all of the empty entries is accepted":  {change: open(reserved.Exact())},
		"a mount of the token's path from hidden is refused": {mounting("scratch", wire.DefaultJobMountPath+"/x"), []string{"spec.ephemeralContainers[0].volumeMounts[0].mountPath"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pod := makePod(t, alice, namespace, func(p *corev1.Pod) { p.Spec.Volumes = []corev1.Volume{{Name: "scratch"}} })
			stored, err := addDebugger(t, pod, tc.change)
			if len(tc.want) > 0 {
				refused(t, err, tc.want...)
				return
			}
			accepted(t, err)
			if diff := cmp.Diff([]corev1.EphemeralContainer{debugger(tc.change)}, withoutDefaults(stored)); err == nil && diff != "" {
				t.Errorf("the debug container is not as it was sent (-want +got):\n%s", diff)
			}
		})
	}
}

// TestDebugContainerOfAPublisher keeps the publisher's token from debug containers too, also when the role label has been
// taken away since.
func TestDebugContainerOfAPublisher(t *testing.T) {
	t.Parallel()
	namespace := publishing(t)
	pod := makePod(t, editor(t, "alice", namespace), namespace, asPublisher())
	steal := mounting(wire.VolumePublisher, wire.DefaultPublisherMountPath)
	_, err := addDebugger(t, pod, steal)
	refused(t, err, `"publisher.validate.lanyard.dev" denied`, "a debug container may not mount")
	delete(pod.Labels, wire.LabelRole)
	pod, err = admin(t).CoreV1().Pods(namespace).Update(t.Context(), pod, metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = addDebugger(t, pod, steal)
	refused(t, err, `"publisher.validate.lanyard.dev" denied`, `"platform-connector-token"`)
	_, err = addDebugger(t, pod, nil)
	accepted(t, err)
}

// TestDebugContainerElsewhere proves that a namespace without labels of ours is free to do what it likes.
func TestDebugContainerElsewhere(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t, nil)
	pod := makePod(t, editor(t, "alice", namespace), namespace)
	stored, err := addDebugger(t, pod, func(c *corev1.EphemeralContainerCommon) { open(nil)(c); principal(c) })
	accepted(t, err)
	want := []corev1.EphemeralContainer{debugger(func(c *corev1.EphemeralContainerCommon) { open(nil)(c); principal(c) })}
	if diff := cmp.Diff(want, withoutDefaults(stored)); err == nil && diff != "" {
		t.Errorf("the debug container was changed (-want +got):\n%s", diff)
	}
}

// TestKubectlDebug does the same as people do it.
func TestKubectlDebug(t *testing.T) {
	t.Parallel()
	namespace := managed(t)
	pod := makePod(t, editor(t, "alice", namespace), namespace)
	sh := shellOf(t, cluster.Admin, namespace)
	debug := []string{"debug", "pod/" + pod.Name, "--image=registry.example/tools:1", "--attach=false"}
	sh.refused(t, "", slices.Concat(debug, []string{"--env=NMP_PRINCIPAL=root"}), "Forbidden", "env[NMP_PRINCIPAL]", "set by the platform")
	sh.must(t, "", debug...)
	stored, err := admin(t).CoreV1().Pods(namespace).Get(t.Context(), pod.Name, metav1.GetOptions{})
	if err != nil || len(stored.Spec.EphemeralContainers) != 1 {
		t.Errorf("the pod has %d debug containers (%v)", len(stored.Spec.EphemeralContainers), err)
	}
}

// withoutDefaults are a pod's ephemeral containers less what the API server fills in.
func withoutDefaults(pod *corev1.Pod) []corev1.EphemeralContainer {
	list := slices.Clone(pod.Spec.EphemeralContainers)
	for i := range list {
		list[i].TerminationMessagePath = ""
		for j := range list[i].VolumeMounts {
			list[i].VolumeMounts[j].RecursiveReadOnly = nil
		}
	}
	return list
}
