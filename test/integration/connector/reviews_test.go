//go:build linux

package connector

import (
	"bytes"
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/lanyard-k8s/lanyard/test/podtest"
)

// speaker is an HTTP/2 client of the socket or of the deployment's port, without gRPC.
func (r *running) speaker() (client *http.Client, base string) {
	var protocols http.Protocols
	transport := &http.Transport{Protocols: &protocols, TLSClientConfig: &tls.Config{RootCAs: r.roots, MinVersion: tls.VersionTLS12}}
	r.t.Cleanup(transport.CloseIdleConnections)
	client = &http.Client{Transport: transport, Timeout: 30 * time.Second}
	if r.socket == "" {
		protocols.SetHTTP2(true)
		return client, "https://" + r.address
	}
	protocols.SetUnencryptedHTTP2(true)
	transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", r.socket)
	}
	return client, "http://connector"
}

// TestForgedReviewsAtItsPorts posts reviews that say who has made something, which any pod can, to every port of the connector, as they are
// and dressed up as gRPC: there is nobody who reads them.
func TestForgedReviewsAtItsPorts(t *testing.T) {
	h := shared.home(t)
	review := podtest.Review([]byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","namespace":"team","annotations":{"lanyard.dev/created-by":"alice"}}}`))
	framed := append([]byte{0, 0, byte(len(review) >> 16), byte(len(review) >> 8), byte(len(review))}, review...)
	for name, r := range map[string]*running{"socket": h.run(), "deployment": h.run(func(p *plan) { p.deployment = true })} {
		client, base := r.speaker()
		for _, path := range []string{"/mutate/job", "/validate/job", "/"} {
			if code, _ := posted(t, http.DefaultClient, r.metrics+path, "application/json", review); code != http.StatusNotFound {
				t.Errorf("%s: %s of the metrics answers with %d", name, path, code)
			}
			if code, _ := posted(t, client, base+path, "application/json", review); code != http.StatusUnsupportedMediaType {
				t.Errorf("%s: %s of the events answers JSON with %d", name, path, code)
			}
			code, status := posted(t, client, base+path, "application/grpc", framed)
			if code != http.StatusOK || status != codes.PermissionDenied.String() {
				t.Errorf("%s: %s of the events answers gRPC with %d, %s", name, path, code, status)
			}
		}
		if n := r.counter(`lanyard_connector_events_total{outcome="accepted"}`); n != 0 {
			t.Errorf("%s: %v events were accepted", name, n)
		}
	}
}

// posted sends a body and returns the answer's code, and gRPC's status by name if there is one.
func posted(t *testing.T, client *http.Client, url, kind string, body []byte) (code int, status string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, bytes.NewReader(body))
	must(t, err)
	req.Header.Set("Content-Type", kind)
	req.Header.Set("TE", "trailers")
	resp, err := client.Do(req)
	must(t, err)
	defer func() { _ = resp.Body.Close() }()
	var all bytes.Buffer
	_, err = all.ReadFrom(resp.Body)
	must(t, err)
	word := resp.Header.Get("Grpc-Status") + resp.Trailer.Get("Grpc-Status")
	var c codes.Code
	if word == "" || c.UnmarshalJSON([]byte(word)) != nil {
		return resp.StatusCode, ""
	}
	return resp.StatusCode, c.String()
}
