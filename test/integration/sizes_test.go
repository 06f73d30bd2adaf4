//go:build unix

package integration

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/mutate/reserved"
)

// large gives a pod this many containers with this many variables each, half of them from a ConfigMap besides, which is what
// costs the policies most: the empty entries are counted.
func large(containers, variables int) edit {
	return func(p *corev1.Pod) {
		p.Spec.Containers = nil
		for i := range containers {
			c := corev1.Container{Name: fmt.Sprintf("c%d", i), Image: "registry.example/main:1"}
			for j := range variables {
				c.Env = append(c.Env, corev1.EnvVar{Name: fmt.Sprintf("SETTING_%d_%d", i, j), Value: "a value of some length"})
			}
			if i%2 == 1 {
				c.EnvFrom = []corev1.EnvFromSource{{Prefix: "X_", SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}}}}
				for _, name := range reserved.Exact()[:4] {
					c.Env = append(c.Env, corev1.EnvVar{Name: name})
				}
			}
			p.Spec.Containers = append(p.Spec.Containers, c)
		}
	}
}

// TestLargeObjects proves that neither the policies' budget nor the webhook's limits stop what an API server can store,
// since a policy that runs out of budget refuses.
func TestLargeObjects(t *testing.T) {
	t.Parallel()
	namespace := managed(t)
	alice := editor(t, "alice", namespace)
	for name, size := range map[string][2]int{
		"40 containers with 40 variables": {40, 40}, "100 containers with 100 variables": {100, 100}, "one container with 10000 variables": {1, 10000},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			edits := []edit{large(size[0], size[1])}
			identified(t, makePod(t, alice, namespace, edits...), "alice")
			_, err := tryPod(t, alice, namespace, newPod(edits[0], setting(wire.EnvPrincipal, "root")))
			refused(t, err, wire.EnvPrincipal)
			job := newJob("", edits...)
			job.GenerateName, job.Spec.Suspend = "large-", new(true)
			stored := makeJob(t, alice, namespace, job)
			_, err = alice.BatchV1().Jobs(namespace).Patch(t.Context(), stored.Name, types.MergePatchType, []byte(`{"spec":{"parallelism":2}}`), metav1.PatchOptions{})
			accepted(t, err)
			template, selector := workload()
			template.Spec.Containers = job.Spec.Template.Spec.Containers
			web := deployment("", template, selector)
			web.GenerateName, web.Spec.Replicas = "large-", new(int32(0))
			made, err := alice.AppsV1().Deployments(namespace).Create(t.Context(), web, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			_, err = alice.AppsV1().Deployments(namespace).Patch(t.Context(), made.Name, types.MergePatchType, []byte(`{"spec":{"paused":true}}`), metav1.PatchOptions{})
			accepted(t, err)
		})
	}
}
