package socket_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"os/user"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/lanyard-k8s/lanyard/api/jobs"
	"github.com/lanyard-k8s/lanyard/dockerjob"
	"github.com/lanyard-k8s/lanyard/dockerjob/socket"
	"github.com/lanyard-k8s/lanyard/internal/obs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is a backend whose answers a test gives. What is nil answers with the zero value.
type fake struct {
	submit func(ctx context.Context, subject string, spec dockerjob.Spec) (dockerjob.Job, error)
	logs   func(ctx context.Context, o dockerjob.LogOptions, stdout, stderr io.Writer) error
	wait   func(ctx context.Context) (dockerjob.Job, error)
	list   []dockerjob.Job
	ready  error
	err    error // of all others

	mu      sync.Mutex
	stopped []string
}

func (f *fake) Submit(ctx context.Context, subject string, spec dockerjob.Spec) (dockerjob.Job, error) {
	if f.submit == nil {
		return dockerjob.Job{ID: "0a1b2c3d4e5f"}, f.err
	}
	return f.submit(ctx, subject, spec)
}

func (f *fake) List(context.Context, string) ([]dockerjob.Job, error) { return f.list, f.err }

func (f *fake) Logs(ctx context.Context, _, _ string, o dockerjob.LogOptions, stdout, stderr io.Writer) error {
	if f.logs == nil {
		return f.err
	}
	return f.logs(ctx, o, stdout, stderr)
}

func (f *fake) Stop(_ context.Context, subject, ref string, _ time.Duration) (dockerjob.Job, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stopped = append(f.stopped, subject+" "+ref)
	return dockerjob.Job{}, f.err
}

func (f *fake) Wait(ctx context.Context, _, _ string) (dockerjob.Job, error) {
	if f.wait == nil {
		return dockerjob.Job{}, f.err
	}
	return f.wait(ctx)
}

func (f *fake) Ready() error { return f.ready }

func (f *fake) stops() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.Join(f.stopped, ", ")
}

// desk is a served socket.
type desk struct {
	t    *testing.T
	path string
	stop func()
	log  *syncBuffer
	reg  *prometheus.Registry
}

// syncBuffer is a log that is read while it is written.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// me is the subject of this process's own user.
const me = "me@example.com"

// serve serves a backend to this process's own user.
func serve(t *testing.T, f *fake, change func(*socket.Options)) *desk {
	t.Helper()
	d := &desk{t: t, log: &syncBuffer{}, reg: prometheus.NewRegistry()}
	log, err := obs.NewLogger(d.log, "debug")
	must(t, err)
	metrics, err := socket.NewMetrics(d.reg)
	must(t, err)
	o := socket.Options{
		Jobs: f, Metrics: metrics, Log: log, Bounds: socket.Bounds{PerUser: 50, Total: 100},
		Submitters: socket.Submitters{Listed: map[uint32]string{uint32(os.Geteuid()): me}, Lookup: func(string) (*user.User, error) { return &user.User{}, nil }},
	}
	if change != nil {
		change(&o)
	}
	s, err := socket.New(o)
	must(t, err)
	l, path := listen(t)
	d.path = path
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- s.Task(l, 10*time.Second)(ctx) }()
	d.stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(time.Minute):
			t.Error("the server does not end with its context")
		}
	})
	t.Cleanup(d.stop)
	return d
}

// client has connections of its own; they are closed with the test, or before.
func (d *desk) client() *http.Client {
	tr := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var n net.Dialer
		return n.DialContext(ctx, "unix", d.path)
	}}
	d.t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

// ask sends a request and reads the answer.
func (d *desk) ask(method, path, body string) (int, string, jobs.Failure) {
	d.t.Helper()
	req, err := http.NewRequestWithContext(d.t.Context(), method, "http://x"+path, strings.NewReader(body))
	must(d.t, err)
	req.Header.Set("Content-Type", "application/json")
	c := d.client()
	defer c.CloseIdleConnections()
	resp, err := c.Do(req)
	must(d.t, err)
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	must(d.t, err)
	var f jobs.Failure
	_ = json.Unmarshal(raw, &f)
	return resp.StatusCode, string(raw), f
}

// count is a counter's value.
func (d *desk) count(operation, outcome string) float64 {
	d.t.Helper()
	all, err := d.reg.Gather()
	must(d.t, err)
	for _, family := range all {
		for _, m := range family.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			if family.GetName() == "lanyard_submit_requests_total" && labels["operation"] == operation && labels["outcome"] == outcome {
				return m.GetCounter().GetValue()
			}
		}
	}
	d.t.Fatalf("no series %s %s", operation, outcome)
	return 0
}
