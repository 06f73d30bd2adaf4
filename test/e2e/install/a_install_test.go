//go:build unix

package install

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lanyard-k8s/lanyard/test/cluster/nodes"
	"github.com/lanyard-k8s/lanyard/test/e2e/house"
)

// TestInstall installs the chart with its defaults on a cluster that has never seen it.
func TestInstall(t *testing.T) {
	h := home.Enter(t)
	if installed(t, h) {
		t.Fatal("the release is there already; this test comes first")
	}
	mustInstall(t, h, "")
	t.Run("everything is ready", func(t *testing.T) { allReady(t, h) })
	t.Run("webhooks trust the CA", func(t *testing.T) { trusted(t, h, ca(t, h)) })
	t.Run("helm test", func(t *testing.T) {
		helmTest(t, h)
		house.Eventually(t, "a connector's log of the test's event", func(ctx context.Context) error {
			logs, err := h.Cluster.Kubectl(ctx, "-n", house.Namespace, "logs", "-l", "app.kubernetes.io/component=connector", "--tail=-1")
			if err == nil && !strings.Contains(logs, "LanyardTest") {
				err = errors.New("it is in none")
			}
			return err
		})
	})
	t.Run("doctor", func(t *testing.T) { examined(t, h) })
	t.Run("a job acts for its submitter", func(t *testing.T) { jobActs(t, h, "first-job") })
	t.Run("a publisher is heard", func(t *testing.T) {
		alice := h.MustClient(t, house.Alice)
		for _, node := range nodes.Names() {
			h.MustCreate(t, alice, house.Publishing, house.Publisher("first-"+node, node, "--count=3", "--interval=0", "--store-only"))
		}
		for _, node := range nodes.Names() {
			h.AwaitPod(t, house.Publishing, "first-"+node, corev1.PodSucceeded)
		}
	})
}

// allReady holds every workload of the release to what it was asked for.
func allReady(t *testing.T, h *house.House) {
	t.Helper()
	ours := metav1.ListOptions{LabelSelector: "app.kubernetes.io/part-of=lanyard"}
	deployments, err := h.Admin.AppsV1().Deployments(house.Namespace).List(t.Context(), ours)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, d := range deployments.Items {
		seen[d.Name] = true
		if d.Status.ReadyReplicas != *d.Spec.Replicas {
			t.Errorf("deployment %s has %d of %d replicas ready", d.Name, d.Status.ReadyReplicas, *d.Spec.Replicas)
		}
	}
	// For helm a daemon set is ready when all but maxUnavailable of its pods are, one of two here.
	house.Eventually(t, "every daemon set to be ready on every node", func(ctx context.Context) error {
		sets, err := h.Admin.AppsV1().DaemonSets(house.Namespace).List(ctx, ours)
		if err != nil {
			return err
		}
		for _, d := range sets.Items {
			seen[d.Name] = true
			if want := int32(len(nodes.Names())); d.Status.NumberReady != want {
				return fmt.Errorf("daemon set %s is ready on %d of %d nodes", d.Name, d.Status.NumberReady, want)
			}
		}
		return nil
	})
	for _, name := range []string{"lanyard-webhook", "lanyard-exchange", "lanyard-connector"} {
		if !seen[name] {
			t.Errorf("%s was not installed", name)
		}
	}
	unready, err := h.Cluster.Kubectl(t.Context(), "-n", house.Namespace, "wait", "certificates", "--all", "--for=condition=Ready", "--timeout=5m")
	if err != nil {
		t.Errorf("certificates: %v: %s", err, unready)
	}
}

// helmTest runs the chart's own test: both of its pods must succeed.
func helmTest(t *testing.T, h *house.House) {
	t.Helper()
	said, err := h.Cluster.Helm(t.Context(), "test", house.Release, "--namespace="+house.Namespace, "--timeout=5m")
	if err != nil {
		t.Fatalf("helm test: %v: %s", err, said)
	}
	for _, suite := range []string{"lanyard-test", "lanyard-test-event"} {
		_, rest, found := strings.Cut(said, "TEST SUITE:     "+suite+"\n")
		if block, _, _ := strings.Cut(rest, "TEST SUITE:"); !found || !strings.Contains(block, "Phase:          Succeeded") {
			t.Errorf("helm test says nothing of a suite %s that has succeeded:\n%s", suite, said)
		}
	}
}

// jobActs has alice submit a job that exchanges its token by the wire's facts alone, and wants her in what it gets.
func jobActs(t *testing.T, h *house.House, name string) {
	t.Helper()
	job := h.MustSubmit(t, h.MustClient(t, house.Alice), house.Managed, house.Job(name, "job", "--mode=http"))
	pod := h.PodOfJob(t, job)
	h.AwaitPod(t, house.Managed, pod.Name, corev1.PodSucceeded)
	got := house.Lines[identity](t, h.Log(t, house.Managed, pod.Name), func(i identity) bool { return i.Subject != "" })
	want := fmt.Sprintf("system:serviceaccount:%s:default", house.Managed)
	if len(got) != 1 || got[0].Subject != house.Alice || got[0].Actor.Subject != want {
		t.Errorf("the access token is of %+v, want %s by %s", got, house.Alice, want)
	}
}

// identity is what program workload prints of an access token.
type identity struct {
	Subject string `json:"sub"`
	Actor   struct {
		Subject string `json:"sub"`
	} `json:"act"`
	Error string `json:"error"`
}

// trusted waits until the API server's calls of both webhook configurations are checked against a CA.
func trusted(t *testing.T, h *house.House, ca string) {
	t.Helper()
	house.Eventually(t, "the webhook configurations to trust the CA", func(ctx context.Context) error {
		registration := h.Admin.AdmissionregistrationV1()
		m, err := registration.MutatingWebhookConfigurations().Get(ctx, "lanyard", metav1.GetOptions{})
		if err != nil {
			return err
		}
		v, err := registration.ValidatingWebhookConfigurations().Get(ctx, "lanyard", metav1.GetOptions{})
		if err != nil {
			return err
		}
		bundles := map[string][]byte{}
		for _, w := range m.Webhooks {
			bundles[w.Name] = w.ClientConfig.CABundle
		}
		for _, w := range v.Webhooks {
			bundles[w.Name] = w.ClientConfig.CABundle
		}
		for name, bundle := range bundles {
			if !strings.Contains(string(bundle), ca) {
				return fmt.Errorf("%s does not", name)
			}
		}
		return nil
	})
}

// ca is the CA's certificate, in PEM.
func ca(t *testing.T, h *house.House) string {
	t.Helper()
	secret, err := h.Admin.CoreV1().Secrets(house.Namespace).Get(t.Context(), "lanyard-ca", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(secret.Data[corev1.TLSCertKey]))
}
