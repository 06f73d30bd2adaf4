package webhook

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// readyFor is how long an answer of the self-call holds. The metrics listener is open to whoever may scrape it; this
// bounds what asking for readiness costs.
const readyFor = time.Second

// Readiness says whether reviews are answered: the certificate is loaded and in its time, a call to ourselves through
// TLS and the serving listener is answered with that certificate, and we are not draining.
type Readiness struct {
	desk   *Desk
	certs  Certificates
	url    string
	client *http.Client

	mu   sync.Mutex
	last time.Time
	err  error
}

// NewReadiness checks the server that listens on addr.
func NewReadiness(d *Desk, r Certificates, addr string) *Readiness {
	rd := &Readiness{desk: d, certs: r, url: "https://" + addr + pathSelfCheck}
	rd.client = &http.Client{
		Timeout: 2 * time.Second,
		Transport: &http.Transport{
			DisableKeepAlives: true,
			// The name in the certificate is a Service's, which is not what we dial; that the server shows the very
			// certificate that is loaded proves more than a chain would.
			TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true, VerifyConnection: rd.same},
		},
	}
	return rd
}

func (rd *Readiness) same(cs tls.ConnectionState) error {
	own, err := rd.certs.GetCertificate(nil)
	if err != nil {
		return err
	}
	if len(cs.PeerCertificates) == 0 || !bytes.Equal(cs.PeerCertificates[0].Raw, own.Leaf.Raw) {
		return errors.New("another certificate is served than the one loaded")
	}
	return nil
}

// Check fits obs.Check.
func (rd *Readiness) Check(*http.Request) error {
	if rd.desk.draining.Load() {
		return errors.New("draining")
	}
	if err := rd.certs.Check(); err != nil {
		return err
	}
	rd.mu.Lock()
	defer rd.mu.Unlock()
	if now := time.Now(); now.Sub(rd.last) > readyFor {
		rd.err, rd.last = rd.call(), now
	}
	return rd.err
}

// call does not use the asker's context: the answer is kept for others.
func (rd *Readiness) call() error {
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, rd.url, nil)
	if err != nil {
		return fmt.Errorf("call myself: %w", err)
	}
	resp, err := rd.client.Do(req)
	if err != nil {
		return fmt.Errorf("call myself: %w", err)
	}
	if err := resp.Body.Close(); err != nil {
		return fmt.Errorf("call myself: %w", err)
	}
	if resp.StatusCode != http.StatusNoContent {
		return fmt.Errorf("call myself: answered %d", resp.StatusCode)
	}
	return nil
}
