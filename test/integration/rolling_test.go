//go:build unix

package integration

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/certs"
	"github.com/lanyard-k8s/lanyard/test/cluster/install"
	"github.com/lanyard-k8s/lanyard/test/cluster/process"
	"github.com/lanyard-k8s/lanyard/test/timing"
)

// fleet is what a Deployment of the webhook is made of: the program, its files, and the Service in front of its replicas.
type fleet struct {
	binary, config, certs string
	service               *service
}

// TestRollingRestartUnderLoad replaces the webhook's replicas one after the other, as a rollout does, while pods are created
// all the time: no call fails.
func TestRollingRestartUnderLoad(t *testing.T) {
	t.Parallel()
	namespace := publishing(t)
	alice := editor(t, "alice", namespace)
	f, ca := newFleet(t)
	replica := f.start(t, 0)
	register(t, namespace, f.service.url(), ca)

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var sent atomic.Int64
	var load sync.WaitGroup
	for range 4 {
		load.Go(func() {
			for ctx.Err() == nil {
				_, err := alice.CoreV1().Pods(namespace).Create(t.Context(), newPod(asPublisher()), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
				if err != nil {
					t.Errorf("creating a pod during the rollout: %v", err)
					return
				}
				sent.Add(1)
				<-time.After(20 * time.Millisecond) // other tests need the API server's processors, too
			}
		})
	}
	for i := range 3 {
		begin := sent.Load()
		next := f.start(t, i+1)
		eventually(t, "pods are created", func(context.Context) (bool, error) { return sent.Load() > begin+20 || t.Failed(), nil })
		if err := replica.Terminate(); err != nil {
			t.Fatal(err)
		}
		timing.Next(t, 2*time.Minute, "the replica ends", replica.Done())
		replica = next
	}
	end := sent.Load()
	eventually(t, "pods are created by the last replica", func(context.Context) (bool, error) { return sent.Load() > end+20 || t.Failed(), nil })
	cancel()
	load.Wait()
	t.Logf("%d pods while the webhook was replaced 3 times; %d connections", sent.Load(), f.service.taken.Load())
	if f.service.taken.Load() < 4 {
		t.Errorf("only %d connections were made: the load has not gone through the Service", f.service.taken.Load())
	}
}

// newFleet prepares the programs' files and starts the Service without any replica.
func newFleet(t *testing.T) (f fleet, ca []byte) {
	t.Helper()
	binary, err := install.BuildWebhook(t.Context(), os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	config, err := installation(t).Objects().WebhookConfig()
	if err != nil {
		t.Fatal(err)
	}
	authority, err := certs.NewAuthority("fleet", time.Now(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := authority.Issue(time.Now(), time.Hour, "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	f = fleet{binary: binary, config: filepath.Join(dir, "webhook.yaml"), certs: dir, service: newService(t)}
	if err := pair.Write(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(f.config, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	return f, authority.CA()
}

// start starts a replica and waits until the Service sends it calls.
func (f fleet) start(t *testing.T, number int) *process.Process {
	t.Helper()
	cp := controlPlane(t)
	listen, err := cp.Port()
	if err != nil {
		t.Fatal(err)
	}
	metrics, err := cp.Port()
	if err != nil {
		t.Fatal(err)
	}
	p, err := cp.StartProcess(fmt.Sprintf("webhook-replica-%d", number), f.binary,
		"--config="+f.config, "--tls-cert-dir="+f.certs, "--log-level=debug",
		fmt.Sprintf("--listen=127.0.0.1:%d", listen), fmt.Sprintf("--metrics-listen=127.0.0.1:%d", metrics),
		// Longer than the Service takes to notice, as in the chart.
		"--drain-delay=5s")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { restore(t, p.Stop(context.Background(), 30*time.Second)) })
	r := replica{addr: fmt.Sprintf("127.0.0.1:%d", listen), ready: fmt.Sprintf("http://127.0.0.1:%d/readyz", metrics)}
	f.service.add(r)
	eventually(t, "the Service knows that the replica is ready", func(context.Context) (bool, error) { return f.service.sendsTo(r), nil })
	return p
}

// register has the API server call the Service for publishers' pods of one namespace, besides the installation's webhook.
func register(t *testing.T, namespace, url string, ca []byte) {
	t.Helper()
	configurations := admin(t).AdmissionregistrationV1().MutatingWebhookConfigurations()
	c, err := configurations.Get(t.Context(), "lanyard", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	own := &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "fleet-" + namespace}}
	for _, w := range c.Webhooks {
		if w.Name == "publisher.mutate.lanyard.dev" {
			w.ClientConfig = admissionregistrationv1.WebhookClientConfig{URL: new(url + wire.PathMutatePublisher), CABundle: ca}
			w.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{wire.LabelNamespaceName: namespace}}
			own.Webhooks = append(own.Webhooks, w)
		}
	}
	if _, err := configurations.Create(t.Context(), own, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { restore(t, configurations.Delete(context.Background(), own.Name, metav1.DeleteOptions{})) })
}
