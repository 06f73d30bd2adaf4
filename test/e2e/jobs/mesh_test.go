//go:build linux

package jobs

import (
	"context"
	"fmt"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/test/e2e/house"
)

// meshSpace is where the second injector runs.
const meshSpace = "mesh"

const meshCertificate = `
apiVersion: cert-manager.io/v1
kind: Issuer
metadata: {name: self-signed, namespace: mesh}
spec: {selfSigned: {}}
---
apiVersion: cert-manager.io/v1
kind: Certificate
metadata: {name: injector, namespace: mesh}
spec:
  secretName: injector-tls
  dnsNames: [honest.mesh.svc, greedy.mesh.svc]
  issuerRef: {name: self-signed}
`

// startInjectors runs two webhooks of somebody else's: one adds a sidecar before the containers, as meshes do, to pods labelled
// mesh=honest; the other has its sidecar mount the job's token besides, for pods labelled mesh=greedy.
func startInjectors(t *testing.T, h *house.House) {
	t.Helper()
	must(t, h.MakeNamespace(t.Context(), meshSpace, nil))
	if out, err := h.Cluster.KubectlInput(t.Context(), meshCertificate, "apply", "-f", "-"); err != nil {
		t.Fatalf("the injectors' certificate: %v: %s", err, out)
	}
	for name, more := range map[string][]string{"honest": nil, "greedy": {"--mount=" + wire.VolumeJob}} {
		pod := house.Pod(name, append([]string{"injector", "--image=" + house.Workload}, more...)...)
		pod.Labels = map[string]string{"app": name}
		pod.Spec.RestartPolicy = corev1.RestartPolicyAlways
		pod.Spec.SecurityContext.FSGroup = new(int64(65532))
		pod.Spec.Volumes = []corev1.Volume{{Name: "tls", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "injector-tls"}}}}
		pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "tls", MountPath: "/tls", ReadOnly: true}}
		h.MustCreate(t, h.Admin, meshSpace, pod)
		_, err := h.Admin.CoreV1().Services(meshSpace).Create(t.Context(), &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       corev1.ServiceSpec{Selector: pod.Labels, Ports: []corev1.ServicePort{{Port: 443, TargetPort: intstr.FromInt32(9443)}}},
		}, metav1.CreateOptions{})
		must(t, err)
		h.AwaitReady(t, meshSpace, name)
		configureInjector(t, h, name)
	}
}

func configureInjector(t *testing.T, h *house.House, name string) {
	t.Helper()
	configurations := h.Admin.AdmissionregistrationV1().MutatingWebhookConfigurations()
	_, err := configurations.Create(t.Context(), &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "zz-" + name, Annotations: map[string]string{"cert-manager.io/inject-ca-from": meshSpace + "/injector"}},
		Webhooks: []admissionregistrationv1.MutatingWebhook{{
			Name: name + ".mesh.example.com", AdmissionReviewVersions: []string{"v1"}, SideEffects: new(admissionregistrationv1.SideEffectClassNone),
			ClientConfig:       admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{Namespace: meshSpace, Name: name}},
			ObjectSelector:     &metav1.LabelSelector{MatchLabels: map[string]string{"mesh": name}},
			ReinvocationPolicy: new(admissionregistrationv1.IfNeededReinvocationPolicy),
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
			}},
		}},
	}, metav1.CreateOptions{})
	must(t, err)
	t.Cleanup(func() {
		if err := configurations.Delete(context.Background(), "zz-"+name, metav1.DeleteOptions{}); err != nil {
			t.Errorf("removing the injector's configuration: %v", err)
		}
	})
	house.Eventually(t, "the injector's CA certificate", func(ctx context.Context) error {
		c, err := configurations.Get(ctx, "zz-"+name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if len(c.Webhooks[0].ClientConfig.CABundle) == 0 {
			return fmt.Errorf("cert-manager has not written it")
		}
		return nil
	})
}

// TestASecondInjector has other people's webhooks change the same pods: an honest mesh's sidecar and the job's identity go together,
// and the sidecar gets no token; a mesh that mounts the token into its sidecar has the pod refused.
func TestASecondInjector(t *testing.T) {
	t.Parallel()
	h := enter(t)
	startInjectors(t, h)
	alice := h.MustClient(t, house.Alice)

	job := house.Job("meshed", "job", "--mode=http")
	job.Spec.Template.Labels = map[string]string{"mesh": "honest"}
	made := h.MustSubmit(t, alice, meshed, job)
	pod := h.PodOfJob(t, made)
	house.Eventually(t, "the meshed job's main container to exchange", func(context.Context) error {
		if got := identities(t, h, pod); len(got) != 1 {
			return fmt.Errorf("it printed %d lines: %+v", len(got), got)
		}
		return nil
	})
	wantActing(t, identities(t, h, pod)[0], house.Alice, meshed)
	pod = h.PodOfJob(t, made)
	if len(pod.Spec.Containers) != 2 || pod.Spec.Containers[0].Name != "mesh-proxy" {
		t.Fatalf("the pod's containers are %v, want the sidecar first", pod.Spec.Containers)
	}
	tokens := map[string]bool{}
	for _, c := range pod.Spec.Containers {
		for _, m := range c.VolumeMounts {
			tokens[c.Name] = tokens[c.Name] || m.Name == wire.VolumeJob
		}
	}
	if tokens["mesh-proxy"] || !tokens["main"] {
		t.Errorf("who has the token: %v, want the main container alone", tokens)
	}

	greedy := house.Pod("greedy", "job")
	greedy.Labels = map[string]string{"mesh": "greedy"}
	taken, err := alice.CoreV1().Pods(meshed).Create(t.Context(), greedy, metav1.CreateOptions{})
	if err == nil {
		t.Fatalf("the pod was created with %+v", taken.Spec.Containers)
	}
	if !says(err, "spec.containers[0].volumeMounts[0]") || !says(err, `may not mount "nmp-workload-identity"`) {
		t.Errorf("the answer is %v, want the refusal of the sidecar's mount", err)
	}
}
