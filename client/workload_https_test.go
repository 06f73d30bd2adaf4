package client_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/client"
)

// serveHTTPS serves a platform over TLS, and writes its CA file.
func serveHTTPS(t *testing.T, p *platform, wrap func(http.Handler) http.Handler) (s *httptest.Server, ca string) {
	t.Helper()
	var h http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a := p.handle(r)
		for k, v := range a.header {
			w.Header().Set(k, v)
		}
		if a.status != 0 {
			w.WriteHeader(a.status)
		}
		_, _ = w.Write([]byte(a.body))
	})
	if wrap != nil {
		h = wrap(h)
	}
	s = httptest.NewTLSServer(h)
	t.Cleanup(s.Close)
	p.base = s.URL
	ca = filepath.Join(t.TempDir(), "ca.crt")
	must(t, os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600))
	return s, ca
}

// real is a workload that speaks to a server over TLS.
func real(t *testing.T, s *httptest.Server, ca string) *client.Workload {
	t.Helper()
	w, err := client.NewWorkload(client.WorkloadOptions{TokenFile: subjectFile(t, subjectMarker), BaseURL: s.URL + "/", CAFile: ca})
	must(t, err)
	t.Cleanup(w.Close)
	return w
}

func TestOverHTTPS(t *testing.T) {
	t.Parallel()
	p := &platform{api: rejects(1)}
	s, ca := serveHTTPS(t, p, nil)
	w := real(t, s, ca)
	rt, err := w.RoundTripper(nil)
	must(t, err)
	c := &http.Client{Transport: rt}
	resp, err := c.Post(s.URL+"/v1/upload", "text/plain", strings.NewReader("a file"))
	must(t, err)
	_ = resp.Body.Close()
	if resp.StatusCode != 200 || p.exchanges() != 2 || len(p.bearers) != 2 {
		t.Errorf("status %d, %d exchanges, sent %q", resp.StatusCode, p.exchanges(), p.bearers)
	}
}

func TestAServerThatNobodyVouchesFor(t *testing.T) {
	t.Parallel()
	p := &platform{}
	s, _ := serveHTTPS(t, p, nil)
	_, err := token(t, real(t, s, ""))
	if err == nil || client.Temporary(err) || !strings.Contains(err.Error(), "certificate") || p.found != 0 {
		t.Errorf("got %v", err)
	}
}

func TestNoRedirectIsFollowed(t *testing.T) {
	t.Parallel()
	for _, from := range []string{wire.PathDiscovery, wire.PathToken} {
		for _, code := range []int{301, 302, 303, 307, 308} {
			var followed atomic.Int32
			other, otherCA := serveHTTPS(t, &platform{}, func(http.Handler) http.Handler {
				return http.HandlerFunc(func(http.ResponseWriter, *http.Request) { followed.Add(1) })
			})
			p := &platform{}
			s, ca := serveHTTPS(t, p, func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if r.URL.Path == from {
						http.Redirect(w, r, other.URL+r.URL.Path, code)
						return
					}
					next.ServeHTTP(w, r)
				})
			})
			both, err := os.ReadFile(otherCA)
			must(t, err)
			one, err := os.ReadFile(ca)
			must(t, err)
			must(t, os.WriteFile(ca, append(one, both...), 0o600))
			if _, err := token(t, real(t, s, ca)); err == nil || !strings.Contains(err.Error(), "a redirect, which is not followed") || followed.Load() != 0 {
				t.Errorf("%s, %d: %v, followed %d times", from, code, err, followed.Load())
			}
		}
	}
}

func TestARedirectOfTheAPITakesNoTokenElsewhere(t *testing.T) {
	t.Parallel()
	var seen atomic.Value
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen.Store(r.Header.Get("Authorization")) }))
	t.Cleanup(elsewhere.Close)
	p := &platform{}
	s, ca := serveHTTPS(t, p, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/v1/file" {
				http.Redirect(w, r, elsewhere.URL, http.StatusFound)
				return
			}
			next.ServeHTTP(w, r)
		})
	})
	rt, err := real(t, s, ca).RoundTripper(nil)
	must(t, err)
	resp, err := (&http.Client{Transport: rt}).Get(s.URL + "/v1/file")
	must(t, err)
	_ = resp.Body.Close()
	if got := seen.Load(); got != "" {
		t.Errorf("the other server got %q", got)
	}
}

func TestAnAnswerThatBreaksOff(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	p := &platform{}
	s, ca := serveHTTPS(t, p, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == wire.PathToken && calls.Add(1) == 1 {
				w.Header().Set("Content-Length", "500")
				_, _ = w.Write([]byte(`{"access_token":"` + tokenMarker))
				return
			}
			next.ServeHTTP(w, r)
		})
	})
	if got, err := token(t, real(t, s, ca)); err != nil || got != accessToken(1) {
		t.Errorf("got %q, %v: it should be tried again", got, err)
	}
}

func TestTheCAFileIsLookedAtAgain(t *testing.T) {
	t.Parallel()
	p := &platform{}
	s, ca := serveHTTPS(t, p, nil)
	right, err := os.ReadFile(ca)
	must(t, err)
	wrong, err := os.ReadFile(strangerCA(t))
	must(t, err)
	must(t, os.WriteFile(ca, wrong, 0o600))
	w := real(t, s, ca)
	rt, err := w.RoundTripper(nil, "https://elsewhere.example") // no token, so that no exchange's pause comes between
	must(t, err)
	for _, step := range []struct {
		content []byte
		ok      bool
	}{{wrong, false}, {right, true}, {[]byte("not a certificate"), true}, {wrong, false}} {
		must(t, os.WriteFile(ca, step.content, 0o600))
		client.LookAgain(w)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/v1", nil)
		must(t, err)
		resp, err := rt.RoundTrip(req)
		if err == nil {
			_ = resp.Body.Close()
		}
		if (err == nil) != step.ok {
			t.Errorf("with %.20q: %v", step.content, err)
		}
	}
}

// strangerCA is a CA file of somebody else.
func strangerCA(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	must(t, err)
	file := filepath.Join(t.TempDir(), "ca.crt")
	must(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	return file
}
