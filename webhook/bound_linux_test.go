package webhook

import (
	"io"
	"net"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/lanyard-k8s/lanyard/webhook/settings"
)

// TestOneAddressKeepsNoAPIServerOut: it has as many connections as there are calls, and those that three API servers keep idle for each
// webhook, however few calls there may be; it is turned away over that, and another is served. On Linux
// alone the loopback has more addresses than one.
func TestOneAddressKeepsNoAPIServerOut(t *testing.T) {
	t.Parallel()
	d, _ := newDesk(t, limited(settings.Limits{MaxBodyBytes: 1 << 20, MaxInFlight: 8, MaxInFlightBytes: 1 << 20}))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := &httptest.Server{Listener: d.Bound(l), Config: newHTTPServer(d, logr.Discard())}
	srv.Start()
	defer srv.Close()
	answered := func(from string) bool {
		dial := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: time.Minute}
		c, err := dial.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		_ = c.SetDeadline(time.Now().Add(time.Minute))
		_, _ = io.WriteString(c, "GET "+pathSelfCheck+" HTTP/1.1\r\nHost: x\r\n\r\n")
		var one [1]byte
		_, err = io.ReadFull(c, one[:])
		return err == nil
	}
	const most = 8 + 7*25*3
	for i := range most {
		if !answered("127.0.0.1") {
			t.Fatalf("connection %d of one address is refused", i)
		}
	}
	if answered("127.0.0.1") {
		t.Error("one address has more than its share")
	}
	if !answered("127.0.0.2") {
		t.Error("another address is refused")
	}
	if got := testutil.ToFloat64(d.metrics.turnedAway); got != 1 {
		t.Errorf("%v connections are counted as refused, want 1", got)
	}
	if got := d.bounds(); got.PerKey != most || got.Total != 2*most || got.Reserve != got.Total/8 {
		t.Errorf("bounds %+v, want %d for an address and twice that in all", got, most)
	}
}
