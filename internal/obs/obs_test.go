package obs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/lanyard-k8s/lanyard/test/timing"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestLevels(t *testing.T) {
	t.Parallel()
	tests := map[string][]string{"debug": {"debug", "debug", "info", "error"}, "info": {"info", "error"}, "error": {"error"}}
	for level, want := range tests {
		var out bytes.Buffer
		log, err := NewLogger(&out, level)
		if err != nil {
			t.Fatal(err)
		}
		log.V(4).Info("debug") // as client-go does; its level has no name of its own
		log.V(1).Info("debug", KeyUID, "u")
		log.Info("info")
		log.Error(errors.New("cause"), "error")
		var got []string
		for dec := json.NewDecoder(&out); dec.More(); {
			var line struct{ Level, Time, Message, Source string }
			if err := dec.Decode(&line); err != nil || line.Time == "" || line.Source == "" {
				t.Fatalf("line %+v, %v", line, err)
			}
			if line.Level != line.Message {
				t.Errorf("%q is written at level %q", line.Message, line.Level)
			}
			got = append(got, line.Message)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", level, diff)
		}
	}
	if _, err := NewLogger(io.Discard, "warn"); err == nil || err.Error() != `log level "warn": must be one of [debug info error]` {
		t.Errorf("an unknown level: %v", err)
	}
}

func TestHandler(t *testing.T) {
	t.Parallel()
	yes := func(*http.Request) error { return nil }
	no := func(*http.Request) error { return errors.New("draining") }
	tests := map[string]struct {
		ready    Check
		path     string
		wantCode int
		wantBody string // "" is anything
	}{
		"alive":             {no, "/healthz", 200, "ok\n"},
		"ready":             {yes, "/readyz", 200, "ready\n"},
		"not ready":         {no, "/readyz", 503, "not ready: draining\n"},
		"ready by no check": {nil, "/readyz", 503, "not ready: no check\n"},
		"metrics":           {yes, "/metrics", 200, ""},
		"anything else":     {yes, "/debug/pprof", 404, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := httptest.NewRecorder()
			Handler(NewRegistry(), tc.ready).ServeHTTP(w, httptest.NewRequest(http.MethodGet, tc.path, nil))
			if w.Code != tc.wantCode || (tc.wantBody != "" && w.Body.String() != tc.wantBody) {
				t.Errorf("got %d %q", w.Code, w.Body)
			}
		})
	}
}

func TestServeEndsWithItsContext(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- Serve(l, Handler(NewRegistry(), nil), logr.Discard())(ctx) }()
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := c.Get("http://" + l.Addr().String() + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	if err := resp.Body.Close(); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := timing.Next(t, time.Minute, "serving ends with its context", done); err != nil {
		t.Error(err)
	}
}
