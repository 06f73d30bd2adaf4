package reach

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// trustFor is how long a CA file counts as looked at.
const trustFor = 30 * time.Second

// Transport is a transport that checks servers against the certificates in a file, or the system's where there is none. The file is
// looked at again now and then, and at once when a server's certificate is not good by it, for a job may outlive the CA that it started
// with.
type Transport struct {
	roots *Roots // nil means the system's

	mu     sync.Mutex
	of     int // the change of the roots that via is made of
	looked time.Time
	via    *http.Transport
}

// NewTransport makes one; an empty file means the system's certificates.
func NewTransport(file string) (*Transport, error) {
	if file == "" {
		return &Transport{via: transportFor(nil)}, nil
	}
	roots, err := NewRoots(file)
	if err != nil {
		return nil, err
	}
	t := &Transport{roots: roots}
	t.now(true)
	return t, nil
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

// RoundTrip sends a request. Where the server's certificate is not good and the file has changed since it was looked at, the request, of
// which nothing has been sent, goes out once more. A body that cannot be had twice allows no second time, so the file is looked at first.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	replayable := Replayable(r)
	via := t.now(!replayable)
	resp, err := via.RoundTrip(r)
	if !replayable || !Distrusted(err) {
		return resp, err
	}
	anew := t.now(true)
	if anew == via {
		return resp, err
	}
	body, bodyErr := Body(r)
	if bodyErr != nil {
		return resp, err // which says more
	}
	again := r.Clone(r.Context())
	again.Body = body
	return anew.RoundTrip(again)
}

// Distrusted says whether a request failed because the server's certificate was not good.
func Distrusted(err error) bool {
	var wrong *tls.CertificateVerificationError
	return errors.As(err, &wrong)
}

// CloseIdleConnections lets go of what is kept for later.
func (t *Transport) CloseIdleConnections() { t.now(false).CloseIdleConnections() }

// now is the transport for what the file holds, as it was last looked at or, where the caller wants that, as it is now.
func (t *Transport) now(look bool) *http.Transport {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.roots == nil || !look && time.Since(t.looked) < trustFor {
		return t.via
	}
	pool, change := t.roots.Look()
	t.looked = time.Now()
	if change != t.of {
		if t.via != nil {
			t.via.CloseIdleConnections()
		}
		t.of, t.via = change, transportFor(pool)
	}
	return t.via
}

// Look looks at the file now, and tells as InForce does.
func (t *Transport) Look() int {
	t.now(true)
	return t.InForce()
}

// InForce tells what the file held when it was last looked at, as a number that grows when it changes.
func (t *Transport) InForce() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.of
}

// Replayable says whether a request's body can be had a second time.
func Replayable(r *http.Request) bool {
	return r.Body == nil || r.Body == http.NoBody || r.GetBody != nil
}

// Body is a replayable request's body for the second time.
func Body(r *http.Request) (io.ReadCloser, error) {
	if r.Body == nil || r.Body == http.NoBody {
		return r.Body, nil
	}
	return r.GetBody()
}
