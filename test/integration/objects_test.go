//go:build unix

package integration

import (
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/lanyard-k8s/lanyard/api/wire"
)

// managed makes a namespace whose jobs act for their submitters.
func managed(t *testing.T) string {
	t.Helper()
	return newNamespace(t, map[string]string{wire.LabelJobs: wire.JobsManaged})
}

// publishing makes a namespace whose pods may ask for the publisher's role.
func publishing(t *testing.T) string {
	t.Helper()
	return newNamespace(t, map[string]string{wire.LabelPublishers: wire.PublishersEnabled})
}

// edit changes a pod before it is created.
type edit func(*corev1.Pod)

// newPod is a pod of one container "main", without the service account's own token, so that what is left was injected.
func newPod(edits ...edit) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "pod-"},
		Spec: corev1.PodSpec{
			AutomountServiceAccountToken: new(false),
			RestartPolicy:                corev1.RestartPolicyNever,
			Containers:                   []corev1.Container{{Name: "main", Image: "registry.example/main:1"}},
		},
	}
	for _, e := range edits {
		e(pod)
	}
	return pod
}

func labelled(key, value string) edit {
	return func(p *corev1.Pod) { metav1.SetMetaDataLabel(&p.ObjectMeta, key, value) }
}

func annotated(key, value string) edit {
	return func(p *corev1.Pod) { metav1.SetMetaDataAnnotation(&p.ObjectMeta, key, value) }
}

func setting(name, value string) edit {
	return func(p *corev1.Pod) {
		c := &p.Spec.Containers[0]
		c.Env = append(c.Env, corev1.EnvVar{Name: name, Value: value})
	}
}

func runningAs(account string) edit {
	return func(p *corev1.Pod) { p.Spec.ServiceAccountName = account }
}

// asPublisher asks for the publisher's role.
func asPublisher() edit { return labelled(wire.LabelRole, wire.RolePublisher) }

// withToken projects a token of an audience as volume "own" at /own.
func withToken(audience string) edit {
	return func(p *corev1.Pod) {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "own", VolumeSource: projected(audience, 3600)})
		c := &p.Spec.Containers[0]
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "own", MountPath: "/own", ReadOnly: true})
	}
}

// projected is a volume with one token in it.
func projected(audience string, seconds int64) corev1.VolumeSource {
	return corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{
		ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Audience: audience, ExpirationSeconds: &seconds, Path: wire.TokenFile},
	}}}}
}

// newJob is a job whose template is the pod.
func newJob(name string, edits ...edit) *batchv1.Job {
	pod := newPod(edits...)
	pod.GenerateName = ""
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       batchv1.JobSpec{Template: corev1.PodTemplateSpec{ObjectMeta: pod.ObjectMeta, Spec: pod.Spec}},
	}
}

// makeAccount makes a service account.
func makeAccount(t *testing.T, namespace, name string) {
	t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}
	_, err := admin(t).CoreV1().ServiceAccounts(namespace).Create(t.Context(), account, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
}

// tryPod creates a pod and returns what the API server answers.
func tryPod(t *testing.T, client kubernetes.Interface, namespace string, pod *corev1.Pod) (*corev1.Pod, error) {
	t.Helper()
	return client.CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{})
}

// makePod creates a pod that must be accepted.
func makePod(t *testing.T, client kubernetes.Interface, namespace string, edits ...edit) *corev1.Pod {
	t.Helper()
	pod, err := tryPod(t, client, namespace, newPod(edits...))
	if err != nil {
		t.Fatal(err)
	}
	return pod
}

// makeJob creates a job that must be accepted.
func makeJob(t *testing.T, client kubernetes.Interface, namespace string, job *batchv1.Job) *batchv1.Job {
	t.Helper()
	stored, err := client.BatchV1().Jobs(namespace).Create(t.Context(), job, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return stored
}

// refused fails the test unless the API server has forbidden something in these words.
func refused(t *testing.T, err error, words ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("it was accepted, want a refusal with %q", words)
		return
	}
	if !apierrors.IsForbidden(err) {
		t.Errorf("got %v, want it forbidden", err)
	}
	said(t, err.Error(), words...)
}

// said fails the test unless all of these words are in a text.
func said(t *testing.T, text string, words ...string) {
	t.Helper()
	for _, word := range words {
		if !strings.Contains(text, word) {
			t.Errorf("the answer lacks %q: %s", word, text)
		}
	}
}

// accepted fails the test if the API server has refused.
func accepted(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Errorf("refused, and should not be: %v", err)
	}
}

// tokenIn names the containers of a pod that mount a volume.
func tokenIn(pod *corev1.Pod, volume string) []string {
	var names []string
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		if slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == volume }) {
			names = append(names, c.Name)
		}
	}
	return names
}
