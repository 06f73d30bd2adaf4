//go:build linux

package connector

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	healtheventv1 "github.com/lanyard-k8s/lanyard/api/healthevent/v1"
	"github.com/lanyard-k8s/lanyard/certs"
	"github.com/lanyard-k8s/lanyard/test/cluster/process"
	"github.com/lanyard-k8s/lanyard/test/timing"
)

// plan says how to run the connector.
type plan struct {
	deployment bool
	config     map[string]any // changes of config.json
	settings   string         // YAML, "" for kernel defaults without a cluster's sinks
	level      string
}

// running is a connector that runs as a process of its own, and a client of it.
type running struct {
	t       testing.TB
	name    string
	dir     string
	env     []string
	args    []string
	process *process.Process
	start   func() *process.Process
	metrics string // base URL
	socket  string
	address string
	roots   *x509.CertPool
	conn    *grpc.ClientConn
	client  healtheventv1.PlatformConnectorClient
}

// run starts a connector for the home's first node, or a deployment, and waits until it is ready.
func (h *home) run(change ...func(*plan)) *running {
	h.t.Helper()
	r := h.prepare(change...)
	r.begin()
	return r
}

// prepare writes the files of a connector.
func (h *home) prepare(change ...func(*plan)) *running {
	h.t.Helper()
	p := plan{level: "debug", config: map[string]any{
		"enableNodeBindingAuth": true, "AuthAudience": audience, "AuthCrossNodeServiceAccounts": []string{h.username(listed)},
	}}
	for _, c := range change {
		c(&p)
	}
	dir, err := os.MkdirTemp("", "conn") // short, as the path of a socket must be
	must(h.t, err)
	h.t.Cleanup(func() { _ = os.RemoveAll(dir) })
	r := &running{t: h.t, name: filepath.Base(dir), dir: dir}
	raw, err := json.Marshal(p.config)
	must(h.t, err)
	must(h.t, os.WriteFile(r.file("config.json"), raw, 0o600))
	if p.settings == "" {
		p.settings = "sinks: {kubernetes: {enabled: false}, store: {enabled: true, path: DIR/store/events.db}}\nSPOOL"
	}
	settings := strings.ReplaceAll(p.settings, "DIR", dir)
	spool := "spool: {directory: " + dir + "/spool}"
	if p.deployment {
		spool = ""
	}
	must(h.t, os.WriteFile(r.file("settings.yaml"), []byte(strings.ReplaceAll(settings, "SPOOL", spool)), 0o600))
	port, err := h.Port()
	must(h.t, err)
	r.metrics = fmt.Sprintf("http://127.0.0.1:%d", port)
	r.args = []string{
		"--config", r.file("config.json"), "--settings", r.file("settings.yaml"), "--kubeconfig", h.kubeconfig,
		"--log-level", p.level, "--metrics-listen", fmt.Sprintf("127.0.0.1:%d", port),
	}
	if p.deployment {
		h.deployment(r)
	} else {
		r.socket = r.file("s.sock")
		r.args, r.env = append(r.args, "--socket", r.socket), []string{"NODE_NAME=" + h.node.Name}
	}
	r.start = func() *process.Process {
		started, err := h.StartProcess(r.name, "/usr/bin/env", append(append([]string{}, append(r.env, h.program)...), r.args...)...)
		must(h.t, err)
		return started
	}
	return r
}

func (h *home) deployment(r *running) {
	h.t.Helper()
	pair, err := certs.SelfSigned(time.Now(), "127.0.0.1")
	must(h.t, err)
	must(h.t, os.Mkdir(r.file("tls"), 0o700))
	must(h.t, pair.Write(r.file("tls")))
	port, err := h.Port()
	must(h.t, err)
	r.address, r.roots = fmt.Sprintf("127.0.0.1:%d", port), x509.NewCertPool()
	r.roots.AppendCertsFromPEM(pair.CA)
	r.args = append(r.args, "--role", "deployment", "--listen", r.address, "--tls-cert-dir", r.file("tls"))
}

func (r *running) file(name string) string { return filepath.Join(r.dir, name) }

// begin starts the process and waits until it is ready.
func (r *running) begin() {
	r.t.Helper()
	r.process = r.start()
	r.t.Cleanup(r.end)
	timing.Within(r.t, 2*time.Minute, "the connector is ready: "+r.process.Log(), func() bool { return r.get("/readyz") == "ready\n" })
	r.conn = r.dial()
	r.client = healtheventv1.NewPlatformConnectorClient(r.conn)
}

// end asks the connector to stop and shows its log if the test has failed.
func (r *running) end() {
	if r.process == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := r.process.Stop(ctx, 25*time.Second); err != nil {
		r.t.Errorf("stop: %v", err)
	}
	if log := r.log(); r.t.Failed() {
		r.t.Logf("the end of the connector's log:\n%s", log[max(0, len(log)-4000):])
	}
	r.process = nil
}

func (r *running) log() string {
	raw, err := os.ReadFile(r.process.Log())
	must(r.t, err)
	return string(raw)
}

func (r *running) dial() *grpc.ClientConn {
	r.t.Helper()
	target, secure := "unix://"+r.socket, insecure.NewCredentials()
	if r.socket == "" {
		target, secure = r.address, credentials.NewTLS(&tls.Config{RootCAs: r.roots, MinVersion: tls.VersionTLS12})
	}
	conn, err := grpc.NewClient(target, grpc.WithTransportCredentials(secure))
	must(r.t, err)
	r.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// get fetches a page of the metrics listener; empty if there is none.
func (r *running) get(path string) string {
	resp, err := http.Get(r.metrics + path)
	if err != nil {
		return ""
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	return string(body)
}

// call reports one event for each name, with a token unless that is empty.
func (r *running) call(token string, names ...string) error {
	r.t.Helper()
	return r.send("key", token, names...)
}

func (r *running) send(key, token string, names ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	ctx = metadata.AppendToOutgoingContext(ctx, "idempotency-key", key)
	if token != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
	}
	batch := &healtheventv1.HealthEvents{Version: 1}
	for _, n := range names {
		batch.Events = append(batch.Events, &healtheventv1.HealthEvent{Version: 1, CheckName: "GpuXidError", IsFatal: true, NodeName: n, Message: key})
	}
	_, err := r.client.HealthEventOccurredV1(ctx, batch)
	return err
}

// counter reads one series, such as platform_connector_auth_violations_total{reason="token_invalid"}.
func (r *running) counter(series string) float64 {
	r.t.Helper()
	for line := range strings.Lines(r.get("/metrics")) {
		if rest, ok := strings.CutPrefix(line, series+" "); ok {
			var v float64
			_, err := fmt.Sscan(rest, &v)
			must(r.t, err)
			return v
		}
	}
	r.t.Fatalf("no series %s", series)
	return 0
}

func violation(reason string) string {
	return fmt.Sprintf("platform_connector_auth_violations_total{reason=%q}", reason)
}

// marked says whether an error carries the mark of an outage.
func marked(err error) bool {
	for _, d := range status.Convert(err).Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok {
			return info.GetReason() == "NVSENTINEL_AUTH_BACKEND_UNAVAILABLE" && info.GetDomain() == "nvsentinel.nvidia.com"
		}
	}
	return false
}
