package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/lanyard-k8s/lanyard/api/wire"
)

// selftest asks for both pods and says what came of each.
func selftest(ctx context.Context, client kubernetes.Interface, namespace string, stdout io.Writer) error {
	good, goodErr := dryRun(ctx, client, namespace, testPod())
	switch {
	case goodErr != nil:
		goodErr = fmt.Errorf("good pod: %w", goodErr)
	case good.Annotations[wire.AnnotationCreatedBy] == "":
		goodErr = fmt.Errorf("good pod: came back without annotation %s: the webhook was not called; is the namespace labelled %s=%s?",
			wire.AnnotationCreatedBy, wire.LabelJobs, wire.JobsManaged)
	case !closed(good.Spec.Containers[0]):
		goodErr = errors.New("good pod: came back without the empty entries that keep reserved names out of envFrom")
	}
	bad := testPod()
	bad.Spec.Containers[0].Env = []corev1.EnvVar{{Name: wire.EnvPrincipal, Value: "selftest"}}
	_, badErr := dryRun(ctx, client, namespace, bad)
	switch {
	case badErr == nil:
		badErr = fmt.Errorf("bad pod: was accepted although it sets %s; is admission.mode audit?", wire.EnvPrincipal)
	case apierrors.IsForbidden(badErr):
		badErr = nil
	default:
		badErr = fmt.Errorf("bad pod: refused for another reason: %w", badErr)
	}
	if err := errors.Join(goodErr, badErr); err != nil {
		return err
	}
	_, err := fmt.Fprintf(stdout, "good pod: accepted and stamped for %s\nbad pod: refused\n", good.Annotations[wire.AnnotationCreatedBy])
	return err
}

func dryRun(ctx context.Context, client kubernetes.Interface, namespace string, pod *corev1.Pod) (*corev1.Pod, error) {
	return client.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
}

// closed says whether a container with envFrom has an empty entry for a reserved name.
func closed(c corev1.Container) bool {
	for _, e := range c.Env {
		if e.Name == wire.EnvPrincipal && e.Value == "" {
			return true
		}
	}
	return false
}

// testPod opts out of identity, so that the account that runs the test need not be one that may submit jobs, and fits the
// restricted Pod Security Standard, so that nothing else refuses it.
func testPod() *corev1.Pod {
	yes, no := true, false
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "lanyard-selftest-", Labels: map[string]string{wire.LabelRole: wire.RoleNone}},
		Spec: corev1.PodSpec{
			RestartPolicy:                corev1.RestartPolicyNever,
			AutomountServiceAccountToken: &no,
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot: &yes, SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			Containers: []corev1.Container{{
				Name: "main", Image: "lanyard.invalid/selftest:never-pulled",
				EnvFrom: []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{
					LocalObjectReference: corev1.LocalObjectReference{Name: "lanyard-selftest"}, Optional: &yes,
				}}},
				SecurityContext: &corev1.SecurityContext{
					AllowPrivilegeEscalation: &no, Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
				},
			}},
		},
	}
}
