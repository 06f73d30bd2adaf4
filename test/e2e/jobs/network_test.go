//go:build linux

package jobs

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/test/e2e/house"
)

const (
	// outside is a namespace that Lanyard does not know, with a service in it that anybody may call.
	outside = "outside"
	// discovery is what the exchange tells everybody who gets through to it.
	discovery = "https://lanyard-exchange." + house.Namespace + ".svc:8443" + wire.PathDiscovery
	elsewhere = "http://service." + outside + ".svc:8080/"
	apiServer = "https://kubernetes.default.svc/healthz"
)

// called is a line of program workload's about a call.
type called struct {
	Status int    `json:"status"`
	Error  string `json:"error"`
}

// caller runs a pod that calls a URL over and over, as nobody.
func caller(t *testing.T, h *house.House, namespace, name, url string, change func(*corev1.Pod)) *corev1.Pod {
	t.Helper()
	pod := house.Pod(name, "call", "--anonymous", "--url="+url, "--again=300ms")
	if change != nil {
		change(pod)
	}
	return h.MustCreate(t, h.MustClient(t, house.Alice), namespace, pod)
}

// awaitCalls waits until the last three calls of a pod have ended in a way. A pod's network is opened, and closed, a moment after it
// has started.
func awaitCalls(t *testing.T, h *house.House, pod *corev1.Pod, what string, want func(called) bool) {
	t.Helper()
	house.Eventually(t, pod.Name+" to be "+what, func(ctx context.Context) error {
		raw, err := h.Admin.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{Container: "main"}).DoRaw(ctx)
		if err != nil {
			return err
		}
		all := house.Lines[called](t, string(raw), nil)
		last := all[max(0, len(all)-3):]
		if len(last) < 3 || slices.ContainsFunc(last, func(c called) bool { return !want(c) }) {
			return fmt.Errorf("of %d calls the last are %+v", len(all), last)
		}
		return nil
	})
}

func served(c called) bool { return c.Status == http.StatusOK }

// heard says that somebody has answered a call, be it with a refusal: the network has let it through.
func heard(c called) bool { return c.Status != 0 }

// closed says that the network has refused a call, as it does here: there was no connection, though there is who listens.
func closed(c called) bool { return c.Status == 0 && strings.Contains(c.Error, "connection refused") }

// serviceOutside runs a service of somebody else's.
func serviceOutside(t *testing.T, h *house.House) {
	t.Helper()
	must(t, h.MakeNamespace(t.Context(), outside, nil))
	pod := house.Pod("service", "serve")
	pod.Labels = map[string]string{"app": "service"}
	h.MustCreate(t, h.Admin, outside, pod)
	_, err := h.Admin.CoreV1().Services(outside).Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "service"},
		Spec:       corev1.ServiceSpec{Selector: pod.Labels, Ports: []corev1.ServicePort{{Port: 8080, TargetPort: intstr.FromInt32(8080)}}},
	}, metav1.CreateOptions{})
	must(t, err)
	secret, err := h.Admin.CoreV1().Secrets(house.Namespace).Get(t.Context(), "lanyard-exchange-tls", metav1.GetOptions{})
	must(t, err)
	_, err = h.Admin.CoreV1().ConfigMaps(outside).Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: wire.DefaultCAConfigMap}, Data: map[string]string{wire.CAFile: string(secret.Data[wire.CAFile])},
	}, metav1.CreateOptions{})
	must(t, err)
}

// trusting gives a pod of somebody outside a ConfigMap with what the certificate is checked against: the exchange's, or the API server's.
func trusting(configMap string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Spec.Volumes = []corev1.Volume{{Name: "ca", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: configMap},
		}}}}
		pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "ca", MountPath: "/ca", ReadOnly: true}}
		pod.Spec.Containers[0].Args = append(pod.Spec.Containers[0].Args, "--ca-file=/ca/"+wire.CAFile)
	}
}

// TestNetworkPolicies has pods call each other as the network policies of the chart let them and do not: the exchange's port is open to
// managed namespaces and to no other, and with jobs.networkPolicy a job has a way to the exchange and nowhere else, not even to the
// API server. Who is kept out and who is let in call the same addresses at the same time. That the stranger gets to the exchange once
// an admin opens the way shows that nothing else kept it out.
func TestNetworkPolicies(t *testing.T) {
	t.Parallel()
	h := enter(t)
	serviceOutside(t, h)
	stranger := caller(t, h, outside, "stranger-to-exchange", discovery, trusting(wire.DefaultCAConfigMap))
	free := caller(t, h, outside, "stranger-elsewhere", elsewhere, nil)
	job := caller(t, h, house.Managed, "job-to-exchange", discovery, nil)
	confined := caller(t, h, house.Managed, "job-elsewhere", elsewhere, nil)
	freeToAPI := caller(t, h, outside, "stranger-to-api-server", apiServer, trusting("kube-root-ca.crt"))
	toAPI := caller(t, h, house.Managed, "job-to-api-server", apiServer, nil)

	awaitCalls(t, h, job, "served by the exchange", served)
	awaitCalls(t, h, free, "served by the service outside", served)
	awaitCalls(t, h, freeToAPI, "answered by the API server", heard)
	awaitCalls(t, h, stranger, "kept from the exchange", closed)
	awaitCalls(t, h, confined, "kept from the service outside", closed)
	awaitCalls(t, h, toAPI, "kept from the API server", closed)

	opened, err := h.Admin.NetworkingV1().NetworkPolicies(house.Namespace).Create(t.Context(), &networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "from-outside"},
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{"app.kubernetes.io/component": "exchange"}},
			Ingress: []networkingv1.NetworkPolicyIngressRule{{From: []networkingv1.NetworkPolicyPeer{{
				NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: outside}},
			}}}},
		},
	}, metav1.CreateOptions{})
	must(t, err)
	t.Cleanup(func() {
		_ = h.Admin.NetworkingV1().NetworkPolicies(opened.Namespace).Delete(context.Background(), opened.Name, metav1.DeleteOptions{}) // the cluster ends anyway
	})
	awaitCalls(t, h, stranger, "served by the exchange, once the way is open", served)
}
