//go:build unix

package install

import (
	"context"
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lanyard-k8s/lanyard/test/e2e/house"
)

// shown is what program workload prints of a certificate that a server presents.
type shown struct {
	Serial string `json:"serial"`
	Error  string `json:"error"`
}

// servers are ours that have a certificate: its Secret, where it is presented, and from which namespace it can be reached.
func servers() map[string]struct{ address, namespace string } {
	at := func(name, port string) string { return name + "." + house.Namespace + ".svc:" + port }
	return map[string]struct{ address, namespace string }{
		"lanyard-webhook-tls":   {at("lanyard-webhook", "443"), house.Listed},
		"lanyard-connector-tls": {at("lanyard-connector", "50051"), house.Listed},
		"lanyard-exchange-tls":  {at("lanyard-exchange", "8443"), house.Managed},
	}
}

// TestRenewal renews the CA and every server's certificate while everything is in use: programs go over to the new ones without a
// restart, and nobody's call fails.
func TestRenewal(t *testing.T) {
	h := home.Enter(t)
	mustInstall(t, h, everything)
	publishOverTLS(t, h)
	watchers := watchCertificates(t, h)
	l := startLoad(t, h, "renewal")
	restarts := ourPods(t, h)

	oldCA, oldLeaves := mustCertificate(t, h, "lanyard-ca"), map[string]*x509.Certificate{}
	for name := range servers() {
		oldLeaves[name] = mustCertificate(t, h, name)
	}
	renew(t, h, "lanyard-ca")
	newCA := awaitNew(t, h, "lanyard-ca", oldCA)
	if !oldCA.PublicKey.(interface{ Equal(x crypto.PublicKey) bool }).Equal(newCA.PublicKey) {
		t.Error("the CA has another key after its renewal: certificates that it signed before are worthless")
	}
	trusted(t, h, ca(t, h))
	l.more(t, 40)

	// One by the other way: somebody has deleted the Secret.
	if err := h.Admin.CoreV1().Secrets(house.Namespace).Delete(t.Context(), "lanyard-webhook-tls", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	renew(t, h, "lanyard-connector-tls")
	renew(t, h, "lanyard-exchange-tls")
	for name := range servers() {
		fresh := awaitNew(t, h, name, oldLeaves[name])
		house.Eventually(t, "the new certificate of "+name+" to be presented", func(context.Context) error {
			return presents(t, h, name, watchers[name], fresh.SerialNumber.String())
		})
	}
	house.Eventually(t, "jobs to be told the new CA", func(ctx context.Context) error {
		m, err := h.Admin.CoreV1().ConfigMaps(house.Managed).Get(ctx, "lanyard-ca", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if told, err := parse([]byte(m.Data["ca.crt"])); err != nil || told.SerialNumber.Cmp(newCA.SerialNumber) != 0 {
			return errors.Join(err, errors.New("it is still the old one"))
		}
		return nil
	})
	l.more(t, 40)
	l.end(t)
	judgeWatchers(t, h, watchers)
	judgeTLSPublisher(t, h)
	for pod, was := range ourPods(t, h) {
		if before, ok := restarts[pod]; !ok || before != was {
			t.Errorf("pod %s is new or was restarted (%d times, %d before): a renewal needs neither", pod, was, before)
		}
	}
}

// renew has cert-manager issue a certificate anew, as `cmctl renew` does.
func renew(t *testing.T, h *house.House, certificate string) {
	t.Helper()
	patch := fmt.Sprintf(`[{"op":"add","path":"/status/conditions/-","value":{"type":"Issuing","status":"True","reason":"ManuallyTriggered",`+
		`"message":"renewed by a test","lastTransitionTime":%q}}]`, time.Now().UTC().Format(time.RFC3339))
	if _, err := h.Cluster.Kubectl(t.Context(), "-n", house.Namespace, "patch", "certificate", certificate, "--subresource=status", "--type=json", "-p", patch); err != nil {
		t.Fatal(err)
	}
}

// mustCertificate is the certificate in a Secret.
func mustCertificate(t *testing.T, h *house.House, secret string) *x509.Certificate {
	t.Helper()
	c, err := certificate(t.Context(), h, secret)
	if err != nil {
		t.Fatalf("secret %s: %v", secret, err)
	}
	return c
}

func certificate(ctx context.Context, h *house.House, secret string) (*x509.Certificate, error) {
	s, err := h.Admin.CoreV1().Secrets(house.Namespace).Get(ctx, secret, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return parse(s.Data[corev1.TLSCertKey])
}

// awaitNew waits for another certificate in a Secret.
func awaitNew(t *testing.T, h *house.House, secret string, old *x509.Certificate) *x509.Certificate {
	t.Helper()
	var fresh *x509.Certificate
	house.Eventually(t, "another certificate in secret "+secret, func(ctx context.Context) (err error) {
		if fresh, err = certificate(ctx, h, secret); err == nil && fresh.SerialNumber.Cmp(old.SerialNumber) == 0 {
			err = errors.New("it is still the old one")
		}
		return err
	})
	return fresh
}

// parse reads a certificate in PEM.
func parse(data []byte) (*x509.Certificate, error) {
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, errors.New("no certificate")
	}
	return x509.ParseCertificate(block.Bytes)
}

// watchCertificates runs a pod for each server that shakes hands with it over and over, trusting what the exchange hands out.
func watchCertificates(t *testing.T, h *house.House) map[string]*corev1.Pod {
	t.Helper()
	pods := map[string]*corev1.Pod{}
	for name, s := range servers() {
		pod := house.Pod("watch-"+name, "certificate", "--address="+s.address, "--ca-file=/ca/ca.crt", "--again=200ms")
		pod.Labels = map[string]string{"lanyard.dev/role": "none"}
		pod.Spec.Volumes = []corev1.Volume{{Name: "ca", VolumeSource: corev1.VolumeSource{
			ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "lanyard-ca"}},
		}}}
		pod.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "ca", MountPath: "/ca", ReadOnly: true}}
		pods[name] = h.MustCreate(t, h.MustClient(t, house.Alice), s.namespace, pod)
	}
	for name, pod := range pods {
		h.AwaitPod(t, pod.Namespace, pod.Name, corev1.PodRunning)
		serial := mustCertificate(t, h, name).SerialNumber.String()
		house.Eventually(t, "the certificate of "+name+" to be presented", func(context.Context) error { return presents(t, h, name, pod, serial) })
	}
	return pods
}

// presents says whether the last handshake showed a certificate.
func presents(t *testing.T, h *house.House, name string, watcher *corev1.Pod, serial string) error {
	t.Helper()
	all := house.Lines[shown](t, h.Log(t, watcher.Namespace, watcher.Name), nil)
	if len(all) == 0 || all[len(all)-1].Serial != serial {
		return fmt.Errorf("%d handshakes; the last of %s says %+v, want %s", len(all), name, all[max(0, len(all)-1):], serial)
	}
	return nil
}

// judgeWatchers wants every handshake to have succeeded since the first that did: the network opens to a new pod only after a moment.
func judgeWatchers(t *testing.T, h *house.House, watchers map[string]*corev1.Pod) {
	t.Helper()
	for name, pod := range watchers {
		all := house.Lines[shown](t, h.Log(t, pod.Namespace, pod.Name), nil)
		all = all[max(0, slices.IndexFunc(all, func(s shown) bool { return s.Error == "" })):]
		var wrong []string
		for _, s := range all {
			if s.Error != "" {
				wrong = append(wrong, s.Error)
			}
		}
		if len(wrong) > 0 {
			t.Errorf("%s: %d of %d handshakes have failed:\n%s", name, len(wrong), len(all), first(wrong))
		}
		t.Logf("%s: %d handshakes", name, len(all))
	}
}

// publishOverTLS has a publisher report to the Deployment.
func publishOverTLS(t *testing.T, h *house.House) {
	t.Helper()
	pod := house.Pod("over-tls", "publisher", "--target=lanyard-connector."+house.Namespace+".svc:50051", "--ca-file=/var/run/secrets/nemo-platform/ca/ca.crt", "--interval=200ms", "--store-only")
	pod.Spec.ServiceAccountName = house.Monitor
	h.MustCreate(t, h.MustClient(t, house.Alice), house.Listed, pod)
	h.AwaitPod(t, house.Listed, pod.Name, corev1.PodRunning)
	house.Eventually(t, "the Deployment to acknowledge a batch", func(context.Context) error {
		if batches := tlsBatches(t, h); len(batches) == 0 || batches[len(batches)-1].Outcome != "acknowledged" {
			return fmt.Errorf("there is %+v", batches)
		}
		return nil
	})
}

func tlsBatches(t *testing.T, h *house.House) []batch {
	t.Helper()
	return house.Lines[batch](t, h.Log(t, house.Listed, "over-tls"), func(b batch) bool { return b.ID != "" })
}

func judgeTLSPublisher(t *testing.T, h *house.House) {
	t.Helper()
	var wrong []string
	all := tlsBatches(t, h)
	for _, b := range all {
		if b.Outcome != "acknowledged" {
			wrong = append(wrong, fmt.Sprintf("%+v", b))
		}
	}
	if len(wrong) > 0 {
		t.Errorf("%d of %d batches to the Deployment were not acknowledged:\n%s", len(wrong), len(all), first(wrong))
	}
	t.Logf("%d batches to the Deployment", len(all))
}

// ourPods are our running pods, with how often their first container was restarted.
func ourPods(t *testing.T, h *house.House) map[string]int32 {
	t.Helper()
	list, err := h.Admin.CoreV1().Pods(house.Namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/part-of=lanyard"})
	if err != nil {
		t.Fatal(err)
	}
	pods := map[string]int32{}
	for _, pod := range list.Items {
		if pod.DeletionTimestamp == nil && len(pod.Status.ContainerStatuses) > 0 {
			pods[pod.Name] = pod.Status.ContainerStatuses[0].RestartCount
		}
	}
	return pods
}
