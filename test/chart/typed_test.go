//go:build unix

package chart

import (
	"fmt"
	"slices"
	"testing"

	certmanagerv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/yaml"
)

// untyped are the kinds whose types the project does not import.
const untyped = "monitoring.coreos.com"

func TestEveryObjectIsOfItsType(t *testing.T) {
	t.Parallel()
	for name := range profiles(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seen := map[string]bool{}
			for _, o := range render(t, name) {
				id := fmt.Sprintf("%s %s %s", o.GroupVersionKind(), o.GetNamespace(), o.GetName())
				if seen[id] {
					t.Errorf("%s is rendered twice", id)
				}
				seen[id] = true
				if o.GroupVersionKind().Group != untyped {
					decode(t, o)
				}
			}
		})
	}
}

func TestEveryPodIsRestricted(t *testing.T) {
	t.Parallel()
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	restricted := api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}
	for name := range profiles(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pods := 0
			for _, o := range render(t, name) {
				meta, spec, ok := podOf(t, o)
				if !ok {
					continue
				}
				pods++
				var reasons []string
				for _, r := range evaluator.EvaluatePod(restricted, &meta.ObjectMeta, spec) {
					if !r.Allowed {
						reasons = append(reasons, r.ForbiddenReason)
					}
				}
				slices.Sort(reasons)
				var want []string
				if mountsHost(spec) {
					want = unrestricted()
				}
				if diff := cmp.Diff(want, reasons); diff != "" {
					t.Errorf("%s %s is not restricted, or more so than thought (-want +got):\n%s", o.GetKind(), o.GetName(), diff)
				}
				for _, c := range spec.Containers {
					if s := c.SecurityContext; s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem {
						t.Errorf("%s %s: container %s may write its root", o.GetKind(), o.GetName(), c.Name)
					}
				}
			}
			if pods == 0 {
				t.Error("no pod was rendered")
			}
		})
	}
}

// mountsHost says whether a pod mounts a host's directory, as the connector's DaemonSet and the test that speaks to it do.
func mountsHost(spec *corev1.PodSpec) bool {
	return slices.ContainsFunc(spec.Volumes, func(v corev1.Volume) bool { return v.HostPath != nil })
}

// unrestricted is what the restricted level has against those: a hostPath directory belongs to root.
func unrestricted() []string {
	return []string{"restricted volume types", "runAsNonRoot != true", "runAsUser=0"}
}

// decode decodes an object strictly into its API type.
func decode(t *testing.T, o *unstructured.Unstructured) runtime.Object {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	if err := certmanagerv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	raw, err := yaml.Marshal(o.Object)
	if err != nil {
		t.Fatal(err)
	}
	typed, _, err := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer().Decode(raw, nil, nil)
	if err != nil {
		t.Errorf("%s %s: %v", o.GetKind(), o.GetName(), err)
	}
	return typed
}

// podOf finds the pod in an object that makes one.
func podOf(t *testing.T, o *unstructured.Unstructured) (corev1.PodTemplateSpec, *corev1.PodSpec, bool) {
	t.Helper()
	if o.GroupVersionKind().Group == untyped {
		return corev1.PodTemplateSpec{}, nil, false
	}
	switch typed := decode(t, o).(type) {
	case *appsv1.Deployment:
		return typed.Spec.Template, &typed.Spec.Template.Spec, true
	case *appsv1.DaemonSet:
		return typed.Spec.Template, &typed.Spec.Template.Spec, true
	case *batchv1.Job:
		return typed.Spec.Template, &typed.Spec.Template.Spec, true
	case *corev1.Pod:
		return corev1.PodTemplateSpec{ObjectMeta: typed.ObjectMeta}, &typed.Spec, true
	}
	return corev1.PodTemplateSpec{}, nil, false
}
