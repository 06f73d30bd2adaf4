package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/testscript"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/test/script"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"webhook": main})
}

func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, script.Params([]string{"PORT", "METRICS"}, nil, nil))
}

func TestUninstallIsIdempotent(t *testing.T) {
	t.Parallel()
	named := metav1.ObjectMeta{Name: configurationName}
	client := fake.NewClientset(&admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: named}, &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: named})
	for _, want := range []string{"deleted", "already gone"} {
		var out bytes.Buffer
		if err := uninstall(t.Context(), client, &out); err != nil {
			t.Fatal(err)
		}
		lines := fmt.Sprintf("MutatingWebhookConfiguration lanyard %s\nValidatingWebhookConfiguration lanyard %[1]s\n", want)
		if diff := cmp.Diff(lines, out.String()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

func TestSelftest(t *testing.T) {
	t.Parallel()
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", errors.New("no"))
	stamp := func(p *corev1.Pod) {
		p.Annotations = map[string]string{wire.AnnotationCreatedBy: "tester"}
		p.Spec.Containers[0].Env = append(p.Spec.Containers[0].Env, corev1.EnvVar{Name: wire.EnvPrincipal})
	}
	tests := map[string]struct {
		good, bad func(*corev1.Pod) error
		want      string
	}{
		"a webhook that works":        {func(p *corev1.Pod) error { stamp(p); return nil }, func(*corev1.Pod) error { return forbidden }, ""},
		"a webhook that is not there": {func(*corev1.Pod) error { return nil }, func(*corev1.Pod) error { return forbidden }, "good pod: came back without annotation lanyard.dev/created-by: the webhook was not called; is the namespace labelled lanyard.dev/jobs=managed?"},
		"rules that refuse nothing":   {func(p *corev1.Pod) error { stamp(p); return nil }, func(*corev1.Pod) error { return nil }, "bad pod: was accepted although it sets NMP_PRINCIPAL; is admission.mode audit?"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := fake.NewClientset()
			client.PrependReactor("create", "pods", func(a k8stesting.Action) (bool, runtime.Object, error) {
				create := a.(k8stesting.CreateActionImpl)
				pod := create.Object.(*corev1.Pod)
				if diff := cmp.Diff([]string{metav1.DryRunAll}, create.CreateOptions.DryRun); diff != "" {
					t.Errorf("not a dry run (-want +got):\n%s", diff)
				}
				if len(pod.Spec.Containers[0].Env) == 0 {
					return true, pod, tc.good(pod)
				}
				return true, pod, tc.bad(pod)
			})
			got := ""
			if err := selftest(t.Context(), client, "team", io.Discard); err != nil {
				got = err.Error()
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
