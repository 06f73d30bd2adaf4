//go:build unix

package gateway

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/lanyard-k8s/lanyard/certs"
	"github.com/lanyard-k8s/lanyard/test/chart"
)

const example = "../../../docs/examples/gateway/nginx.conf"

// snippets are the files of ConfigMap lanyard-gateway, as helm renders it.
var snippets = sync.OnceValues(func() (map[string]string, error) {
	helm, err := chart.Find(context.Background(), os.Stderr)
	if err != nil {
		return nil, err
	}
	rendered, err := helm.Template(context.Background(), "--show-only", "templates/gateway.yaml")
	if err != nil {
		return nil, err
	}
	objects, err := chart.Objects(rendered)
	if err != nil || len(objects) != 1 {
		return nil, fmt.Errorf("%d objects: %w", len(objects), err)
	}
	files, _, err := unstructured.NestedStringMap(objects[0].Object, "data")
	return files, err
})

// snippet is one of them.
func snippet(t *testing.T, name string) string {
	t.Helper()
	files, err := snippets()
	must(t, err)
	if files[name] == "" {
		t.Fatalf("the chart renders no %s", name)
	}
	return files[name]
}

// model is a model container's stand-in: it answers everybody, and writes down what reached it.
type model struct {
	address string

	mu     sync.Mutex
	seen   []*http.Request
	bodies []string
}

func newModel(t *testing.T) *model {
	t.Helper()
	m := &model{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		m.mu.Lock()
		m.seen, m.bodies = append(m.seen, r), append(m.bodies, string(body))
		m.mu.Unlock()
		switch r.URL.Path {
		case "/fails":
			w.WriteHeader(http.StatusInternalServerError)
		case "/sends-elsewhere":
			w.Header().Set("X-Accel-Redirect", "/_lanyard/authenticate")
		}
		_, _ = w.Write([]byte("model"))
	}))
	t.Cleanup(s.Close)
	m.address = strings.TrimPrefix(s.URL, "http://")
	return m
}

// last is the newest request that reached the model, and how many have.
func (m *model) last() (r *http.Request, body string, n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if n = len(m.seen); n == 0 {
		return nil, "", 0
	}
	return m.seen[n-1], m.bodies[n-1], n
}

// gateway is a running nginx.
type gateway struct {
	address string
	roots   *x509.CertPool
}

// newGateway starts nginx with the example's configuration; only addresses are changed, and where nginx may write.
func newGateway(t *testing.T, p *platform, m *model) *gateway {
	t.Helper()
	binary, err := exec.LookPath("nginx")
	if err != nil {
		binary = "/usr/sbin/nginx"
	}
	if _, err := os.Stat(binary); err != nil {
		t.Skip("SKIPPED: no nginx is installed here, so the nginx snippets are not tried; install Debian's nginx-light")
	}
	dir, address := t.TempDir(), freeAddress(t)
	write := func(name string, data []byte) {
		must(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700))
		must(t, os.WriteFile(filepath.Join(dir, name), data, 0o600))
	}
	for _, name := range []string{"nginx-http.conf", "nginx-server.conf", "nginx-location.conf"} {
		// The upstream's address is the Service's, which this machine cannot resolve.
		text := strings.Replace(snippet(t, name), "server "+serverName+":8443;", "server "+p.address+";", 1)
		write("lanyard/"+name, []byte(text))
	}
	write("lanyard/ca.crt", read(t, filepath.Join(p.dir, certs.CAFile)))
	write("tls/tls.crt", read(t, filepath.Join(p.dir, certs.CertFile)))
	write("tls/tls.key", read(t, filepath.Join(p.dir, certs.KeyFile)))
	write("nginx.conf", configure(t, map[string]string{
		"server model.models.svc:8000;": "server " + m.address + ";",
		"listen 8443 ssl;":              "listen " + address + " ssl;",
		"worker_processes 2;":           "worker_processes 1;\nmaster_process off;\ndaemon off;",
		"access_log off;":               "access_log off;\nclient_body_temp_path b; proxy_temp_path p; fastcgi_temp_path f; scgi_temp_path s; uwsgi_temp_path u;",
	}))
	run(t, binary, dir)
	g := &gateway{address: address, roots: x509.NewCertPool()}
	g.roots.AppendCertsFromPEM(read(t, filepath.Join(p.dir, certs.CAFile)))
	await(t, address)
	return g
}

// configure is the example with replacements, each of which must find its place exactly once.
func configure(t *testing.T, replace map[string]string) []byte {
	t.Helper()
	text := string(read(t, example))
	for old, new := range replace {
		if strings.Count(text, old) != 1 {
			t.Fatalf("%s: %q stands in it %d times", example, old, strings.Count(text, old))
		}
		text = strings.Replace(text, old, new, 1)
	}
	return []byte(text)
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(name)
	must(t, err)
	return data
}

// run starts nginx and ends it with the test.
func run(t *testing.T, binary, dir string) {
	t.Helper()
	var log bytes.Buffer
	cmd := exec.Command(binary, "-p", dir, "-c", "nginx.conf") //nolint:gosec // a fixed program
	cmd.Stderr = &log
	must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("nginx said:\n%s", log.String())
		}
		if strings.Contains(log.String(), "eyJ") {
			t.Error("a token is in nginx's log")
		}
	})
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	return l.Addr().String()
}

// await waits until somebody listens.
func await(t *testing.T, address string) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	end := time.After(time.Minute)
	for {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
		if err == nil {
			_ = conn.Close()
			return
		}
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("nginx does not listen on %s", address)
		}
	}
}

// ask sends a request as it is written, line by line, and returns the answer.
func (g *gateway) ask(t *testing.T, lines ...string) *http.Response {
	t.Helper()
	dialer := &tls.Dialer{Config: &tls.Config{RootCAs: g.roots, MinVersion: tls.VersionTLS12}}
	conn, err := dialer.DialContext(t.Context(), "tcp", g.address)
	must(t, err)
	defer conn.Close()
	must(t, conn.SetDeadline(time.Now().Add(time.Minute)))
	raw := strings.Join(lines, "\r\n")
	if !strings.Contains(raw, "\r\n\r\n") {
		raw += "\r\n\r\n"
	}
	_, err = conn.Write([]byte(raw))
	must(t, err)
	method, _, _ := strings.Cut(raw, " ")
	resp, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
	must(t, err)
	body, err := io.ReadAll(resp.Body)
	must(t, err)
	_ = resp.Body.Close()
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return resp
}
