package dockerjob_test

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/lanyard-k8s/lanyard/delegation/delegationtest"
	"github.com/lanyard-k8s/lanyard/dockerjob"
)

// TestNew: what is missing or cannot be is said at once, all of it.
func TestNew(t *testing.T) {
	t.Parallel()
	ca := func() []byte { return []byte("-----BEGIN CERTIFICATE-----\n") }
	for name, tc := range map[string]struct {
		change func(*dockerjob.Settings)
		want   []string
	}{
		"as it should be":     {func(*dockerjob.Settings) {}, nil},
		"nothing":             {func(s *dockerjob.Settings) { *s = dockerjob.Settings{} }, []string{"Instance", "BaseURL", "CA", "Audiences"}},
		"a CA that is none":   {func(s *dockerjob.Settings) { s.CA = func() []byte { return []byte("x") } }, []string{"CA"}},
		"plain http":          {func(s *dockerjob.Settings) { s.BaseURL = "http://lanyard.internal" }, []string{"BaseURL"}},
		"a user in the URL":   {func(s *dockerjob.Settings) { s.BaseURL = "https://a:b@lanyard.internal" }, []string{"BaseURL"}},
		"the host's network":  {func(s *dockerjob.Settings) { s.Network = "host" }, []string{"Network"}},
		"another's network":   {func(s *dockerjob.Settings) { s.Network = "container:x" }, []string{"Network"}},
		"a mount that climbs": {func(s *dockerjob.Settings) { s.MountPath = "/a/../b" }, []string{"MountPath"}},
		"a mount over all":    {func(s *dockerjob.Settings) { s.MountPath = "/" }, []string{"MountPath"}},
		"numbers below zero": {func(s *dockerjob.Settings) { s.Pids, s.MaxJobs, s.MaxAge, s.Timeout = -1, -1, time.Second, -1 },
			[]string{"Pids", "MaxJobs", "MaxAge", "Timeout"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := dockerjob.Settings{Instance: "test", BaseURL: "https://lanyard.internal:8443", CA: ca, Audiences: []string{"platform"}}
			tc.change(&s)
			engine, err := dockerjob.NewEngine("unix:///nowhere")
			if err != nil {
				t.Fatal(err)
			}
			metrics, err := dockerjob.NewMetrics(prometheus.NewPedanticRegistry())
			if err != nil {
				t.Fatal(err)
			}
			b, err := dockerjob.New(dockerjob.Options{Engine: engine, Store: &delegationtest.Memory{}, Metrics: metrics, Settings: s})
			if len(tc.want) == 0 {
				if err != nil {
					t.Fatal(err)
				}
				if err := b.Ready(); !errors.Is(err, dockerjob.ErrEngine) {
					t.Errorf("ready before Run: %v", err)
				}
				return
			}
			if !errors.Is(err, dockerjob.ErrSettings) {
				t.Fatalf("error is %v", err)
			}
			for _, w := range tc.want {
				if !strings.Contains(err.Error(), w+": ") {
					t.Errorf("nothing about %s in %v", w, err)
				}
			}
		})
	}
	if _, err := dockerjob.New(dockerjob.Options{}); err == nil || !strings.Contains(err.Error(), "an Engine, a Store and Metrics are needed") {
		t.Errorf("made of nothing: %v", err)
	}
}

func TestMetricsAreLinted(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewPedanticRegistry()
	if _, err := dockerjob.NewMetrics(reg); err != nil {
		t.Fatal(err)
	}
	problems, err := testutil.GatherAndLint(reg)
	if err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
	if _, err := dockerjob.NewMetrics(reg); err == nil {
		t.Error("registered twice")
	}
	if n, err := testutil.GatherAndCount(reg, "lanyard_dockerjob_ended_total"); err != nil || n != len(dockerjob.Ends()) {
		t.Errorf("%d ends have a series, %v", n, err)
	}
}

// TestAnEngineOfLongAgo: what speaks too old an API is as good as away, and nothing is asked of it.
func TestAnEngineOfLongAgo(t *testing.T) {
	t.Parallel()
	engine := standIn(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/_ping" {
			t.Errorf("asked for %s", r.URL.Path)
		}
		w.Header().Set("Api-Version", "1.24")
	})
	if err := engine.Ping(t.Context()); !errors.Is(err, dockerjob.ErrEngine) || !strings.Contains(err.Error(), "1.24") {
		t.Errorf("it answers with %v", err)
	}
}

// standIn is an Engine that answers what no Engine of this machine does.
func standIn(t *testing.T, answer http.HandlerFunc) *dockerjob.Engine {
	t.Helper()
	dir, err := os.MkdirTemp("", "engine") // t.TempDir's may be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	s := &httptest.Server{Listener: l, Config: &http.Server{Handler: answer}}
	s.Start()
	t.Cleanup(s.Close)
	engine, err := dockerjob.NewEngine("unix://" + l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = engine.Close() })
	return engine
}
