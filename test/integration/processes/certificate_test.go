//go:build linux

package processes

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/lanyard-k8s/lanyard/certs"
	"github.com/lanyard-k8s/lanyard/test/timing"
)

// TestTheCertificateIsReplaced writes another certificate while the program runs: new connections are served with it, old ones go on,
// and no request fails.
func TestTheCertificateIsReplaced(t *testing.T) {
	w := theWorld(t)
	w.emptied(t)
	config := w.configured("store: {directory: " + t.TempDir() + "/records}\nreconcile: {policies: " + w.policies + "}")
	w.migrate(t, config)
	p := w.replica(t, "certified", config)
	must(t, p.Start(t.Context()))
	authority, err := certs.NewAuthority("another", time.Now(), time.Hour)
	must(t, err)
	pair, err := authority.Issue(time.Now(), time.Hour, "127.0.0.1")
	must(t, err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority.CA())
	dial := func() bool {
		conn, err := tls.DialWithDialer(&net.Dialer{Timeout: 5 * time.Second}, "tcp", p.URL[len("https://"):], &tls.Config{RootCAs: roots})
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	}
	if dial() {
		t.Fatal("the new authority is trusted before its certificate is there")
	}
	const jwks = "/apis/auth/jwks"
	if a := send(t.Context(), p.Client, http.MethodGet, p.URL+jwks, "", "", ""); a.status != http.StatusOK {
		t.Fatalf("before: %d", a.status)
	}
	must(t, pair.Write(p.Certificates))
	took := timing.Within(t, time.Minute, "the new certificate is served", dial)
	t.Logf("a replaced certificate is served after %s", took.Round(100*time.Millisecond))
	if a := send(t.Context(), p.Client, http.MethodGet, p.URL+jwks, "", "", ""); a.status != http.StatusOK {
		t.Errorf("an old connection: %d", a.status)
	}
	leaf, err := tls.X509KeyPair(pair.Cert, pair.Key)
	must(t, err)
	parsed, err := x509.ParseCertificate(leaf.Certificate[0])
	must(t, err)
	if got, want := p.Metric("lanyard_exchange_tls_cert_not_after_seconds"), seconds(parsed.NotAfter); got != want {
		t.Errorf("the metric says %s, want %s", got, want)
	}
}
