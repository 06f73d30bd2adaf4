//go:build unix

package integration

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/mutate/reserved"
)

const (
	never    = admissionregistrationv1.NeverReinvocationPolicy
	ifNeeded = admissionregistrationv1.IfNeededReinvocationPolicy
)

// TestSidecarOfAnotherInjector has another webhook add a container before and after ours has seen the pod: only the
// containers first seen get the token, later ones get the empty entries, and nothing is doubled by the second round.
func TestSidecarOfAnotherInjector(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		order string
		again admissionregistrationv1.ReinvocationPolicyType
		want  []string
	}{
		"before ours it is one of the containers first seen":            {before, never, []string{"main", "sidecar"}},
		"before ours and asked again":                                   {before, ifNeeded, []string{"main", "sidecar"}},
		"after ours it is closed and gets no token":                     {after, never, []string{"main"}},
		"after ours and asked again it is closed and gets no token too": {after, ifNeeded, []string{"main"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			namespace := managed(t)
			inject(t, tc.order, namespace, tc.again, addSidecar)
			pod := makePod(t, editor(t, "alice", namespace), namespace)
			if diff := cmp.Diff(tc.want, tokenIn(pod, wire.VolumeJob)); diff != "" {
				t.Errorf("containers with the token (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(reserved.Exact(), emptied(pod, "sidecar", slices.Contains(tc.want, "sidecar"))); diff != "" {
				t.Errorf("what keeps the sidecar's envFrom out (-want +got):\n%s", diff)
			}
			if twice := doubled(pod); len(twice) > 0 {
				t.Errorf("doubled: %q", twice)
			}
		})
	}
}

// TestSidecarOfAMutatingPolicy has the API server itself add the container: such policies come before webhooks.
func TestSidecarOfAMutatingPolicy(t *testing.T) {
	t.Parallel()
	namespace := managed(t)
	mutate(t, namespace, `[JSONPatch{op: "add", path: "/spec/containers/-", value: Object.spec.containers{name: "sidecar", image: "registry.example/sidecar:1"}}]`)
	pod := makePod(t, editor(t, "alice", namespace), namespace)
	if diff := cmp.Diff([]string{"main", "sidecar"}, tokenIn(pod, wire.VolumeJob)); diff != "" {
		t.Errorf("containers with the token (-want +got):\n%s", diff)
	}
	if twice := doubled(pod); len(twice) > 0 {
		t.Errorf("doubled: %q", twice)
	}
}

// TestAccountSwappedByAnInjector has another webhook give a pod another service account after ours has looked at it.
func TestAccountSwappedByAnInjector(t *testing.T) {
	t.Parallel()
	namespace := namedNamespace(t, "lanyard-swapped")
	for _, account := range []string{"monitor", "other"} {
		makeAccount(t, namespace, account)
	}
	alice := editor(t, "alice", namespace)
	inject(t, after, namespace, never, func(pod *corev1.Pod) []operation {
		if to := pod.Annotations["swap-to"]; to != "" {
			return []operation{{"add", "/spec/serviceAccountName", to}, {"add", "/spec/serviceAccount", to}}
		}
		return nil
	})
	_, err := tryPod(t, alice, namespace, newPod(annotated("swap-to", "monitor")))
	refused(t, err, `"listed.validate.lanyard.dev" denied`, "the service account was set too late", "set serviceAccountName in the manifest")
	_, err = tryPod(t, alice, namespace, newPod(runningAs("monitor"), annotated("swap-to", "other")))
	refused(t, err, "lanyard-protected-audiences", "neither is service account "+namespace+"/other a listed publisher")
}

// TestBothRolesAtOnce sends a pod through two entries of ours, the first of which the API server asks again.
func TestBothRolesAtOnce(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t, map[string]string{wire.LabelJobs: wire.JobsManaged, wire.LabelPublishers: wire.PublishersEnabled})
	inject(t, after, namespace, ifNeeded, addSidecar)
	pod := makePod(t, editor(t, "alice", namespace), namespace, asPublisher())
	if got := pod.Labels[wire.LabelInjected]; got != "publisher.job" {
		t.Errorf("injected as %q", got)
	}
	for _, volume := range []string{wire.VolumeJob, wire.VolumePublisher} {
		if diff := cmp.Diff([]string{"main"}, tokenIn(pod, volume)); diff != "" {
			t.Errorf("containers with %s (-want +got):\n%s", volume, diff)
		}
	}
	if twice := doubled(pod); len(twice) > 0 {
		t.Errorf("doubled: %q", twice)
	}
}

// TestMeddlingInjector has another webhook undo or bypass what ours did after ours was asked for the last time.
func TestMeddlingInjector(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		namespace func(*testing.T) string
		again     admissionregistrationv1.ReinvocationPolicyType
		meddle    meddling
		want      []string // empty: the pod is accepted with its token
	}{
		"stripping our volume once is healed by the second round": {managed, never, stripVolume, nil},
		"stripping our volume each time is refused": {managed, ifNeeded, stripVolume,
			[]string{"lanyard-injected-label", "another admission webhook removed the volume"}},
		"stripping our mount each time is refused": {managed, ifNeeded, stripMount,
			[]string{`"job.validate.lanyard.dev" denied`, "spec.containers[0].volumeMounts", "it was added and another admission webhook removed"}},
		"stripping our list of containers each time is refused": {
			managed, ifNeeded, stripAnnotation(wire.AnnotationJobContainers),
			[]string{`"job.validate.lanyard.dev" denied`, "metadata.annotations[lanyard.dev/job-containers]", "another webhook removed it"},
		},
		"stripping the stamp each time is refused": {
			managed, ifNeeded, stripAnnotation(wire.AnnotationCreatedBy), []string{"lanyard-creator-required", "was not stamped with its creator"},
		},
		"setting a reserved variable is refused by ours": {managed, never, setPrincipal,
			[]string{`"job.mutate.lanyard.dev" denied`, "spec.containers[0].env[3].name", "NMP_PRINCIPAL"}},
		"setting a reserved variable behind our back is refused by the policy": {managed, ifNeeded, setPrincipalLate,
			[]string{"lanyard-reserved-names", "spec.containers[main].env[NMP_PRINCIPAL]"}},
		"opting out of identity after injection is refused": {managed, never,
			setLabel(wire.LabelRole, wire.RoleNone), []string{"this pod has no job identity"}},
		"a role label that comes late is refused with the remedy": {publishing, never, setLabel(wire.LabelRole, wire.RolePublisher),
			[]string{`"publisher.validate.lanyard.dev" denied`, "spec.volumes", "came too late", "set the label in the manifest"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			namespace := tc.namespace(t)
			alice := editor(t, "alice", namespace)
			inject(t, after, namespace, tc.again, tc.meddle)
			pod, err := tryPod(t, alice, namespace, newPod())
			if len(tc.want) > 0 {
				refused(t, err, tc.want...)
				return
			}
			accepted(t, err)
			if diff := cmp.Diff([]string{"main"}, tokenIn(pod, wire.VolumeJob)); diff != "" {
				t.Errorf("containers with the token (-want +got):\n%s", diff)
			}
		})
	}
}

func addSidecar(pod *corev1.Pod) []operation {
	if len(pod.Spec.Containers) > 1 {
		return nil
	}
	return []operation{{"add", "/spec/containers/-", map[string]any{
		"name": "sidecar", "image": "registry.example/sidecar:1",
		"envFrom": []any{map[string]any{"configMapRef": map[string]any{"name": "settings"}}},
	}}}
}

func stripVolume(pod *corev1.Pod) []operation {
	var o []operation
	if i := slices.IndexFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == wire.VolumeJob }); i >= 0 {
		o = append(o, operation{Op: "remove", Path: fmt.Sprintf("/spec/volumes/%d", i)})
	}
	return append(o, stripMount(pod)...)
}

func stripMount(pod *corev1.Pod) []operation {
	mounts := pod.Spec.Containers[0].VolumeMounts
	if i := slices.IndexFunc(mounts, func(m corev1.VolumeMount) bool { return m.Name == wire.VolumeJob }); i >= 0 {
		return []operation{{Op: "remove", Path: fmt.Sprintf("/spec/containers/0/volumeMounts/%d", i)}}
	}
	return nil
}

func stripAnnotation(key string) meddling {
	return func(pod *corev1.Pod) []operation {
		if _, there := pod.Annotations[key]; there {
			return []operation{{Op: "remove", Path: "/metadata/annotations/" + strings.ReplaceAll(key, "/", "~1")}}
		}
		return nil
	}
}

func setPrincipal(pod *corev1.Pod) []operation {
	if slices.ContainsFunc(pod.Spec.Containers[0].Env, func(e corev1.EnvVar) bool { return e.Name == wire.EnvPrincipal }) {
		return nil
	}
	return []operation{{"add", "/spec/containers/0/env/-", map[string]any{"name": wire.EnvPrincipal, "value": "root"}}}
}

// setPrincipalLate adds a sidecar the first time, which has ours asked again, and a variable the second time.
func setPrincipalLate(pod *corev1.Pod) []operation {
	if first := addSidecar(pod); first != nil {
		return first
	}
	return setPrincipal(pod)
}

func setLabel(key, value string) meddling {
	return func(*corev1.Pod) []operation {
		return []operation{{"add", "/metadata/labels", map[string]any{key: value}}}
	}
}

// emptied lists, in our order, the reserved names that a container's envFrom can no longer set. The token file's variable
// may have its value in a container that gets the token.
func emptied(pod *corev1.Pod, container string, token bool) []string {
	var names []string
	for _, c := range pod.Spec.Containers {
		for _, name := range reserved.Exact() {
			if c.Name == container && slices.ContainsFunc(c.Env, func(e corev1.EnvVar) bool {
				return e.Name == name && (e.Value == "") != (token && name == wire.EnvSubjectTokenFile)
			}) {
				names = append(names, name)
			}
		}
	}
	return names
}

// doubled names what stands in a pod more than once.
func doubled(pod *corev1.Pod) []string {
	var names []string
	for _, v := range pod.Spec.Volumes {
		names = append(names, "volume "+v.Name)
	}
	for _, c := range pod.Spec.Containers {
		for _, m := range c.VolumeMounts {
			names = append(names, c.Name+" mount "+m.Name)
		}
		for _, e := range c.Env {
			names = append(names, c.Name+" variable "+e.Name)
		}
	}
	slices.Sort(names)
	var twice []string
	for i := 1; i < len(names); i++ {
		if names[i] == names[i-1] {
			twice = append(twice, names[i])
		}
	}
	return twice
}
