package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lanyard-k8s/lanyard/api/jobs"
	"github.com/lanyard-k8s/lanyard/exchange/settings"
)

// lines is a log that is read while it is written.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// unnamed answers as an Engine without images whose bridge names no gateway: its subnet is given, and the loopback interface plays it.
func unnamed(t *testing.T, path string, subnet *atomic.Value) {
	t.Helper()
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	answer := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("API-Version", "1.41")
		w.Header().Set("Content-Type", "application/json")
		switch _, what, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/v"), "/"); {
		case strings.HasSuffix(r.URL.Path, "/_ping"):
			_, _ = io.WriteString(w, "OK")
		case what == "networks/bridge":
			fmt.Fprintf(w, `{"Name":"bridge","Id":"0f8b1cb5a5a35e3b","Driver":"bridge","IPAM":{"Config":[{"Subnet":%q}]},"Options":{"com.docker.network.bridge.name":"lo"}}`, subnet.Load())
		case what == "containers/json":
			_, _ = io.WriteString(w, "[]")
		case what == "volumes":
			_, _ = io.WriteString(w, `{"Volumes":[]}`)
		case what == "events":
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		default:
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, `{"message":"no such thing"}`)
		}
	}
	s := &http.Server{Handler: http.HandlerFunc(answer), ReadHeaderTimeout: time.Minute}
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(l) }()
	t.Cleanup(func() { _ = s.Close(); <-done })
}

// machine is an exchange for one machine that runs, and how to ask it.
type machine struct {
	t       *testing.T
	dir     string
	metrics string
	log     *lines
}

func startMachine(t *testing.T, dir string) *machine {
	t.Helper()
	port := func() string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = l.Close() }()
		_, p, _ := net.SplitHostPort(l.Addr().String())
		return p
	}
	m := &machine{t: t, dir: dir, metrics: "127.0.0.1:" + port(), log: &lines{}}
	config := fmt.Sprintf("issuer: https://build-1.example\ndocker:\n  stateDirectory: %[1]s/state\n  engine: unix://%[1]s/engine.sock\n  socket: %[1]s/run/s\n"+
		"  group: \"%[2]d\"\n  submitters: {%[3]d: alice@example.com}\n  listen: [\"127.0.0.1:%[4]s\", \"bridge:%[5]s\"]\n", dir, os.Getegid(), os.Geteuid(), port(), port())
	if err := os.WriteFile(filepath.Join(dir, "exchange.yaml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := newRoot()
	cmd.SetArgs([]string{"--backend=docker", "--config=" + dir + "/exchange.yaml", "--metrics-listen=" + m.metrics})
	cmd.SetErr(m.log)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- cmd.ExecuteContext(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the exchange ended with %v", err)
		}
		if t.Failed() {
			t.Log(m.log)
		}
	})
	return m
}

// readyz is what the page says.
func (m *machine) readyz() string {
	resp, err := http.Get("http://" + m.metrics + "/readyz")
	if err != nil {
		return err.Error()
	}
	defer func() { _ = resp.Body.Close() }()
	text, _ := io.ReadAll(resp.Body)
	return strings.TrimSpace(string(text))
}

// submit asks for a job.
func (m *machine) submit() (int, jobs.Failure) {
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", m.dir+"/run/s")
	}}}
	var f jobs.Failure
	resp, err := c.Post("http://x"+jobs.PathJobs, "application/json", strings.NewReader(`{"workspace":"w","job":"j","task":"t","image":"i:1"}`))
	if err != nil {
		return 0, f
	}
	defer func() { _ = resp.Body.Close() }()
	_ = json.NewDecoder(resp.Body).Decode(&f)
	return resp.StatusCode, f
}

func (m *machine) within(what string, ok func() bool) {
	m.t.Helper()
	tick, over := time.NewTicker(20*time.Millisecond), time.After(5*time.Minute)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-over:
			m.t.Fatalf("it never came about that %s", what)
		}
	}
}

// TestNoJobWithoutAWayToTheExchange: while the bridge is not served, jobs are refused with the reason, and the exchange is not ready. It
// heals by itself, and both are logged once.
func TestNoJobWithoutAWayToTheExchange(t *testing.T) {
	dir, err := os.MkdirTemp("", "lanyard-b-") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	var subnet atomic.Value
	subnet.Store("203.0.113.0/24")
	unnamed(t, dir+"/engine.sock", &subnet)
	m := startMachine(t, dir)
	why := `no job is started, for it could not reach the exchange: network "bridge": the Engine names no gateway, and interface "lo" of this machine has no address in its subnet`
	m.within("the exchange says why it is not ready", func() bool { return strings.HasPrefix(m.readyz(), "not ready: "+why) })
	m.within("jobs are refused with the reason", func() bool {
		status, f := m.submit()
		return status == http.StatusServiceUnavailable && f.Code == jobs.Unavailable && strings.HasPrefix(f.Message, why)
	})
	subnet.Store("127.0.0.0/8")
	m.within("the exchange is ready", func() bool { return m.readyz() == "ready" })
	m.within("a job gets as far as its image", func() bool {
		status, f := m.submit()
		return status == http.StatusBadRequest && strings.Contains(f.Message, "the image is not on this machine")
	})
	for _, once := range []string{
		`"level":"error"`, "the bridge's address is not served: jobs do not reach the exchange, and none is started",
		"the bridge's address is served: jobs reach the exchange",
	} {
		if n := strings.Count(m.log.String(), once); n != 1 {
			t.Errorf("the log has %q %d times", once, n)
		}
	}
}

// TestWhoNeedsTheBridge: jobs come by it unless they are told another address that is listened on.
func TestWhoNeedsTheBridge(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		d    settings.Docker
		want bool
	}{
		"as it is by default":       {settings.Docker{Listen: []string{"127.0.0.1:8443", "bridge:8443"}}, true},
		"an address comes first":    {settings.Docker{Listen: []string{"10.0.0.5:8443", "bridge:8443"}}, false},
		"an address comes second":   {settings.Docker{Listen: []string{"bridge:8443", "10.0.0.5:8443"}}, true},
		"a URL of that address":     {settings.Docker{BaseURL: "https://10.0.0.5:8443", Listen: []string{"bridge:8443", "10.0.0.5:8443"}}, false},
		"a URL of the bridge's own": {settings.Docker{BaseURL: "https://172.17.0.1:8443", Listen: []string{"10.0.0.5:8443", "bridge:8443"}}, true},
		"a URL with a name":         {settings.Docker{BaseURL: "https://exchange.example:8443", Listen: []string{"10.0.0.5:8443", "bridge:8443"}}, true},
	} {
		if got := needsBridge(tc.d); got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}
