//go:build unix

package house

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// Pod is a pod of program workload with these arguments, one that fits the restricted Pod Security Standard and never restarts.
func Pod(name string, args ...string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{
			RestartPolicy:                 corev1.RestartPolicyNever,
			AutomountServiceAccountToken:  new(false),
			TerminationGracePeriodSeconds: new(int64(5)),
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot: new(true), RunAsUser: new(int64(65532)), SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			Containers: []corev1.Container{{
				Name: "main", Image: Workload, ImagePullPolicy: corev1.PullNever, Args: args,
				SecurityContext: &corev1.SecurityContext{
					AllowPrivilegeEscalation: new(false), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
				},
			}},
		},
	}
}

// Job is a Job of one such pod, which is not tried again.
func Job(name string, args ...string) *batchv1.Job {
	pod := Pod(name, args...)
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       batchv1.JobSpec{BackoffLimit: new(int32(0)), Template: corev1.PodTemplateSpec{Spec: pod.Spec}},
	}
}

// Publisher is a pod of service account Monitor with the publisher's role, on a node, with the connector's socket mounted as
// publishers mount it. In namespace Listed it needs no role, and has it all the same.
func Publisher(name, node string, args ...string) *corev1.Pod {
	pod := Pod(name, append([]string{"publisher"}, args...)...)
	pod.Labels = map[string]string{"lanyard.dev/role": "publisher"}
	pod.Spec.ServiceAccountName, pod.Spec.NodeName = Monitor, ""
	if node != "" {
		pod.Spec.NodeSelector = map[string]string{corev1.LabelHostname: node}
	}
	pod.Spec.Volumes = []corev1.Volume{{
		Name: "socket", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/var/run/nvsentinel"}},
	}}
	pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "socket", MountPath: "/var/run/nvsentinel", ReadOnly: true}}
	return pod
}

// MustCreate creates a pod as a client, and deletes it when the test ends.
func (h *House) MustCreate(t *testing.T, c kubernetes.Interface, namespace string, pod *corev1.Pod) *corev1.Pod {
	t.Helper()
	made, err := c.CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("creating pod %s/%s: %v", namespace, pod.Name, err)
	}
	t.Cleanup(func() {
		_ = h.Admin.CoreV1().Pods(namespace).Delete(context.Background(), made.Name, metav1.DeleteOptions{}) // it may be gone
	})
	return made
}

// MustSubmit submits a Job as a client, and deletes it when the test ends. The first time it waits until the exchange vouches for
// people's work (AwaitIdentity).
func (h *House) MustSubmit(t *testing.T, c kubernetes.Interface, namespace string, job *batchv1.Job) *batchv1.Job {
	t.Helper()
	h.AwaitIdentity(t)
	made, err := c.BatchV1().Jobs(namespace).Create(t.Context(), job, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("submitting job %s/%s: %v", namespace, job.Name, err)
	}
	t.Cleanup(func() {
		_ = h.Admin.BatchV1().Jobs(namespace).Delete(context.Background(), made.Name,
			metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)}) // it may be gone
	})
	return made
}

// AwaitPod waits until a pod is in one of the phases and returns it. Where it can get to none of them any more, it says so at once.
func (h *House) AwaitPod(t *testing.T, namespace, name string, phases ...corev1.PodPhase) *corev1.Pod {
	t.Helper()
	var pod *corev1.Pod
	var lost error
	Eventually(t, fmt.Sprintf("pod %s/%s to be %v", namespace, name, phases), func(ctx context.Context) (err error) {
		if pod, err = h.Admin.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{}); err != nil {
			return err
		}
		if slices.Contains(phases, pod.Status.Phase) {
			return nil
		}
		if ended := pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded; ended {
			lost = fmt.Errorf("pod %s/%s has ended as %s, want %v; its log:\n%s", namespace, name, pod.Status.Phase, phases, h.log(ctx, namespace, name))
			return nil
		}
		return fmt.Errorf("it is %s: %s", pod.Status.Phase, why(pod))
	})
	if lost != nil {
		t.Fatal(lost)
	}
	return pod
}

// AwaitReady waits until a pod is ready.
func (h *House) AwaitReady(t *testing.T, namespace, name string) *corev1.Pod {
	t.Helper()
	var pod *corev1.Pod
	Eventually(t, fmt.Sprintf("pod %s/%s to be ready", namespace, name), func(ctx context.Context) (err error) {
		if pod, err = h.Admin.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{}); err != nil {
			return err
		}
		if IsReady(pod) {
			return nil
		}
		return fmt.Errorf("it is %s: %s", pod.Status.Phase, why(pod))
	})
	return pod
}

// IsReady says whether a pod is ready.
func IsReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// PodOfJob waits for the pod of a Job and returns it.
func (h *House) PodOfJob(t *testing.T, job *batchv1.Job) *corev1.Pod {
	t.Helper()
	var pod corev1.Pod
	Eventually(t, "a pod of job "+job.Namespace+"/"+job.Name, func(ctx context.Context) error {
		list, err := h.Admin.CoreV1().Pods(job.Namespace).List(ctx, metav1.ListOptions{LabelSelector: batchv1.JobNameLabel + "=" + job.Name})
		if err != nil || len(list.Items) == 0 {
			return errors.Join(err, errors.New("there is none"))
		}
		pod = list.Items[0]
		return nil
	})
	return &pod
}

// Log is what the main container of a pod has written.
func (h *House) Log(t *testing.T, namespace, name string) string {
	t.Helper()
	return h.log(t.Context(), namespace, name)
}

func (h *House) log(ctx context.Context, namespace, name string) string {
	raw, err := h.Admin.CoreV1().Pods(namespace).GetLogs(name, &corev1.PodLogOptions{Container: "main"}).DoRaw(ctx)
	if err != nil {
		return "no log: " + err.Error()
	}
	return string(raw)
}

// Lines reads a pod's log, one JSON object a line, into values of a type. Lines of another shape are left out by want, which may
// be nil.
func Lines[T any](t *testing.T, log string, want func(T) bool) []T {
	t.Helper()
	var all []T
	for line := range strings.Lines(log) {
		var one T
		if err := json.Unmarshal([]byte(line), &one); err != nil {
			t.Fatalf("the log has a line that is no JSON of the kind wanted: %q: %v", line, err)
		}
		if want == nil || want(one) {
			all = append(all, one)
		}
	}
	return all
}

// why says what holds a pod up.
func why(pod *corev1.Pod) string {
	var all []string
	for _, c := range pod.Status.Conditions {
		if c.Status != corev1.ConditionTrue && c.Message != "" {
			all = append(all, fmt.Sprintf("%s: %s", c.Type, c.Message))
		}
	}
	for _, c := range append(slices.Clone(pod.Status.InitContainerStatuses), pod.Status.ContainerStatuses...) {
		if w := c.State.Waiting; w != nil {
			all = append(all, fmt.Sprintf("container %s: %s %s", c.Name, w.Reason, w.Message))
		}
	}
	return strings.Join(all, "; ")
}
