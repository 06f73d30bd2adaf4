package main

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lanyard-k8s/lanyard/exchange"
	"github.com/lanyard-k8s/lanyard/internal/places"
)

// TestOneContainerTakesNotAllConnections: it is closed out over its bound, the others are answered, and places come back.
// On Linux alone the loopback has more addresses than one.
func TestOneContainerTakesNotAllConnections(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	metrics, err := exchange.NewMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	srv := &httptest.Server{Listener: metrics.Bound(l, places.Bounds{Total: 5, PerKey: 3}), Config: &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})}}
	srv.Start()
	defer srv.Close()
	// answered asks over a new connection, which is left open.
	answered := func(from string) (net.Conn, bool) {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: time.Minute}
		c, err := d.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		_ = c.SetDeadline(time.Now().Add(time.Minute))
		_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		var one [1]byte
		_, err = io.ReadFull(c, one[:])
		return c, err == nil
	}
	var first net.Conn
	for i := range 3 {
		c, ok := answered("127.0.0.1")
		if !ok {
			t.Fatalf("connection %d of one address is refused", i)
		}
		first = c
	}
	if _, ok := answered("127.0.0.1"); ok {
		t.Error("one address has more than its places")
	}
	for _, from := range []string{"127.0.0.2", "127.0.0.3"} {
		if _, ok := answered(from); !ok {
			t.Errorf("%s is refused for another's connections", from)
		}
	}
	if _, ok := answered("127.0.0.4"); ok {
		t.Error("there are more connections than places")
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	for until := time.Now().Add(5 * time.Minute); ; {
		if c, ok := answered("127.0.0.4"); ok {
			_ = c.Close()
			return
		}
		if time.Now().After(until) {
			t.Fatal("a place never came back")
		}
	}
}
