package obs

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"

	"github.com/lanyard-k8s/lanyard/test/timing"
)

// TestOneScraperKeepsNoOtherOut: an address that has its quarter is turned away and counted, and another is served. On Linux alone the loopback has more
// addresses than one.
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
	if err := timing.Next(t, time.Minute, "serving ends with its context", done); err != nil {
		t.Error(err)
	}
}
