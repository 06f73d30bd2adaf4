package obs

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
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
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestOneScraperKeepsNoOtherOut: an address that has its quarter is turned away and counted, and another is served.
func TestOneScraperKeepsNoOtherOut(t *testing.T) {
	t.Parallel()
	reg := NewRegistry()
	l, err := Listen("127.0.0.1:0", reg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- Serve(l, Handler(reg, nil), logr.Discard())(ctx) }()
	scraped := func(from string) (string, error) {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: time.Minute}
		c, err := d.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		_ = c.SetDeadline(time.Now().Add(time.Minute))
		_, _ = io.WriteString(c, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			return "", err
		}
		text, err := io.ReadAll(res.Body)
		return string(text), err
	}
	for i := range scrapers / 4 {
		if _, err := scraped("127.0.0.1"); err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
	}
	if _, err := scraped("127.0.0.1"); err == nil {
		t.Error("one address has more than its quarter")
	}
	if text, err := scraped("127.0.0.2"); err != nil || !strings.Contains(text, "\nlanyard_metrics_connections_refused_total 1\n") {
		t.Errorf("another address: %v, and the refused one is not counted", err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
