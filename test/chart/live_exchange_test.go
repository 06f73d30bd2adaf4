//go:build unix

package chart

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/certs"
	"github.com/lanyard-k8s/lanyard/test/cluster/process"
	"github.com/lanyard-k8s/lanyard/test/cluster/program"
)

// withExchange tells the chart of a namespace in which the exchange keeps the CA certificate.
const withExchange = "jobs.namespaces={gpu}"

// TestTheExchangeRunsAsTheChartStartsIt runs the program as its Deployment would: its own init container first, its own
// account's token, the rendered files, and no right but the chart's.
func TestTheExchangeRunsAsTheChartStartsIt(t *testing.T) {
	t.Parallel()
	r := newRig(t, "--set", withExchange)
	managed := []byte(`{"metadata":{"labels":{"lanyard.dev/jobs":"managed"}}}`)
	_, err := r.admin.CoreV1().Namespaces().Patch(t.Context(), "gpu", types.MergePatchType, managed, metav1.PatchOptions{})
	r.must(err)
	p, url, metrics, client := r.startExchange()
	page := func(ctx context.Context, url string) string {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		r.must(err)
		answer, err := client.Do(request)
		if err != nil {
			return ""
		}
		defer answer.Body.Close()
		body, _ := io.ReadAll(answer.Body)
		return string(body)
	}
	for what, done := range map[string]func(context.Context) bool{
		"a key is published": func(ctx context.Context) bool { return strings.Contains(page(ctx, url+wire.PathJWKS), `"kid"`) },
		"the policies are those that it expects": func(ctx context.Context) bool {
			return strings.Contains(page(ctx, metrics+"/metrics"), `lanyard_exchange_policies{state="in_order"} 1`)
		},
		"the managed namespace has the CA certificate": func(ctx context.Context) bool {
			m, err := r.admin.CoreV1().ConfigMaps("gpu").Get(ctx, wire.DefaultCAConfigMap, metav1.GetOptions{})
			return err == nil && strings.Contains(m.Data[wire.CAFile], "BEGIN CERTIFICATE")
		},
	} {
		err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, 3*time.Minute, true, func(ctx context.Context) (bool, error) {
			return done(ctx), nil
		})
		if err != nil {
			t.Errorf("not so: %s", what)
		}
	}
	secret, err := r.admin.CoreV1().Secrets(Namespace).Get(t.Context(), "lanyard-exchange-keys", metav1.GetOptions{})
	if err != nil || len(secret.Data) == 0 {
		t.Errorf("the keys are not in their Secret (%v)", err)
	}
	r.must(p.Stop(context.Background(), 35*time.Second))
	raw, _ := os.ReadFile(p.Log())
	if t.Log(string(raw)); strings.Contains(string(raw), "forbidden") {
		t.Error("the program asks for more than the chart lets it have")
	}
}

// startExchange runs the init container, then the container, and returns where it answers, where its metrics are, and a client
// that trusts it.
func (r *rig) startExchange() (p *process.Process, url, metricsURL string, client *http.Client) {
	r.t.Helper()
	tree, err := program.Tree()
	r.must(err)
	binary, err := program.Build(r.t.Context(), os.Stderr, program.Source{Name: "exchange", Dir: tree, Package: "./cmd/exchange"})
	r.must(err)
	_, spec, _ := podOf(r.t, find(r.objects, "Deployment", "lanyard-exchange"))
	api, ca := r.exchangeFiles(spec.ServiceAccountName)
	var migrate []string
	for _, a := range spec.InitContainers[0].Args {
		migrate = append(migrate, r.inside(a))
	}
	if out, err := exec.CommandContext(r.t.Context(), binary, migrate...).CombinedOutput(); err != nil {
		r.t.Fatalf("migrating: %v: %s", err, out)
	}
	listen, metrics, admin := r.port(), r.port(), r.port()
	args := []string{"POD_NAMESPACE=" + Namespace, "POD_NAME=exchange", binary}
	for _, a := range spec.Containers[0].Args {
		args = append(args, strings.NewReplacer("127.0.0.1:8444", admin, ":8443", listen, ":8080", metrics, "=5s", "=0s").Replace(r.inside(a)))
	}
	p, err = r.cp.StartProcess("exchange", "/usr/bin/env", append(args, "--kubeconfig="+r.kubeconfig(api))...)
	r.must(err)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	return p, "https://" + listen, "http://" + metrics, &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}}
}

func (r *rig) port() string {
	r.t.Helper()
	port, err := r.cp.Port()
	r.must(err)
	return fmt.Sprintf("127.0.0.1:%d", port)
}

// exchangeFiles lays out what the containers find, and returns the account's token and the CA certificate.
func (r *rig) exchangeFiles(account string) (string, []byte) {
	r.t.Helper()
	pod, err := r.admin.CoreV1().Pods(Namespace).Create(r.t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "exchange"},
		Spec:       corev1.PodSpec{NodeName: "node-a", ServiceAccountName: account, Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}, metav1.CreateOptions{})
	r.must(err)
	file := func(name string) []byte {
		return fileOf(r.t, "default", "lanyard-exchange", name, "--set", withExchange)
	}
	r.write("/etc/lanyard/config/exchange.yaml", []byte(r.inside(string(file("exchange.yaml")))))
	r.write("/etc/lanyard/config/policies.json", file("policies.json")) // its paths are those of pods
	authority, err := certs.NewAuthority("chart-test", time.Now(), time.Hour)
	r.must(err)
	pair, err := authority.Issue(time.Now(), time.Hour, "127.0.0.1")
	r.must(err)
	r.write("/etc/lanyard/tls/ca.crt", authority.CA())
	r.must(pair.Write(filepath.Join(r.root, "/etc/lanyard/tls")))
	r.must(os.MkdirAll(filepath.Join(r.root, "var/lib/lanyard/exchange"), 0o755)) // the volume's root
	return r.token(pod), authority.CA()
}
