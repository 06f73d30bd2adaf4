//go:build unix

package redteam

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/lanyard-k8s/lanyard/mutate"
)

// door is the webhook's port as anybody reaches it who is in the network: no certificate is asked for.
type door struct {
	http *http.Client
	url  string
}

// desk knocks at a webhook.
func desk(t *testing.T, url string) door {
	t.Helper()
	transport := &http.Transport{
		TLSClientConfig:     &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true},
		MaxIdleConnsPerHost: 512, DisableCompression: true,
	}
	t.Cleanup(transport.CloseIdleConnections)
	return door{http: &http.Client{Transport: transport, Timeout: 2 * time.Minute}, url: url}
}

// post sends a body as a review.
func (d door) post(t *testing.T, path string, body []byte) (int, []byte) {
	t.Helper()
	code, answer, err := d.send(t, http.MethodPost, path, "application/json", body)
	if err != nil {
		t.Fatal(err)
	}
	return code, answer
}

func (d door) send(t *testing.T, method, path, kind string, body []byte) (int, []byte, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, d.url+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	if kind != "" {
		req.Header.Set("Content-Type", kind)
	}
	res, err := d.http.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	return res.StatusCode, answer, err
}

// response is the part of an answer that the API server acts on.
type response struct {
	APIVersion string `json:"apiVersion"`
	Response   struct {
		UID     string `json:"uid"`
		Allowed bool   `json:"allowed"`
		Patch   []byte `json:"patch"`
		Status  struct {
			Code    int    `json:"code"`
			Reason  string `json:"reason"`
			Message string `json:"message"`
		} `json:"status"`
	} `json:"response"`
}

func responseOf(t *testing.T, body []byte) response {
	t.Helper()
	var r response
	if err := json.Unmarshal(body, &r); err != nil {
		t.Fatalf("not JSON: %v", err)
	}
	return r
}

func allowed(t *testing.T, body []byte) bool {
	t.Helper()
	return responseOf(t, body).Response.Allowed
}

func patchOf(t *testing.T, body []byte) []mutate.Op {
	t.Helper()
	var ops []mutate.Op
	if err := json.Unmarshal(responseOf(t, body).Response.Patch, &ops); err != nil {
		t.Fatalf("no patch: %v", err)
	}
	return ops
}
