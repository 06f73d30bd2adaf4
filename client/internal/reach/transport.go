package reach

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"
	"time"
)

// trustFor is how long a CA file counts as looked at.
const trustFor = 30 * time.Second

// Transport is a transport that checks servers against the certificates in a file, or the system's where there is none. The file is
// looked at again now and then, for a job may outlive the CA that it started with.
type Transport struct {
	file string

	mu     sync.Mutex
	pem    []byte
	looked time.Time
	via    *http.Transport
}

// NewTransport makes one; an empty file means the system's certificates.
func NewTransport(file string) (*Transport, error) {
	t := &Transport{file: file}
	if file == "" {
		t.via = transportFor(nil)
		return t, nil
	}
	return t, t.look()
}

// look reads the file, and makes a new transport if it has changed.
func (t *Transport) look() error {
	pem, err := os.ReadFile(t.file)
	if err != nil {
		return fmt.Errorf("read the CA file: %w", err)
	}
	t.looked = time.Now()
	if t.via != nil && bytes.Equal(pem, t.pem) {
		return nil
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return errors.New("CA file " + t.file + ": holds no certificate")
	}
	if t.via != nil {
		t.via.CloseIdleConnections()
	}
	t.pem, t.via = pem, transportFor(roots)
	return nil
}

func transportFor(roots *x509.CertPool) *http.Transport {
	dialer := &net.Dialer{Timeout: 5 * time.Second, KeepAlive: 30 * time.Second}
	return &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            dialer.DialContext,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots},
		ForceAttemptHTTP2:      true,
		TLSHandshakeTimeout:    5 * time.Second,
		MaxIdleConnsPerHost:    8,
		IdleConnTimeout:        90 * time.Second,
		MaxResponseHeaderBytes: 64 << 10,
	}
}

// RoundTrip sends a request. A CA file that cannot be read now leaves what it held before in force.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	return t.now().RoundTrip(r)
}

// CloseIdleConnections lets go of what is kept for later.
func (t *Transport) CloseIdleConnections() { t.now().CloseIdleConnections() }

func (t *Transport) now() *http.Transport {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.file != "" && time.Since(t.looked) >= trustFor {
		if t.look() != nil {
			t.looked = time.Now()
		}
	}
	return t.via
}

// LookAgain makes the next request look at the file.
func (t *Transport) LookAgain() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.looked = time.Time{}
}
