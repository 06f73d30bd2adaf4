// Package injector is a mutating webhook of somebody else's, such as a service mesh's, which the API server calls before or after
// Lanyard's.
package injector

import (
	"crypto/tls"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"

	"github.com/lanyard-k8s/lanyard/certs"
)

// Patch returns the JSON patch (RFC 6902) for an object; nil is none.
type Patch func(object []byte) ([]byte, error)

// Injector is the webhook's server, which ends with its test.
type Injector struct {
	URL string
	CA  []byte // PEM

	patch Patch
	calls atomic.Int64
}

// Start starts the server on the loopback address, with a certificate of its own.
func Start(t testing.TB, patch Patch) *Injector {
	t.Helper()
	authority, err := certs.NewAuthority("injector", time.Now(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := authority.Issue(time.Now(), time.Hour, "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	served, err := tls.X509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		t.Fatal(err)
	}
	i := &Injector{CA: authority.CA(), patch: patch}
	server := httptest.NewUnstartedServer(i)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{served}}
	server.StartTLS()
	t.Cleanup(server.Close)
	i.URL = server.URL
	return i
}

// Called says whether the API server has called.
func (i *Injector) Called() bool { return i.calls.Load() > 0 }

// ServeHTTP answers a review with the patch.
func (i *Injector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	i.calls.Add(1)
	var review admissionv1.AdmissionReview
	if json.NewDecoder(r.Body).Decode(&review) != nil || review.Request == nil {
		http.Error(w, "unreadable", http.StatusBadRequest)
		return
	}
	answer := &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
	patch, err := i.patch(review.Request.Object.Raw)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if patch != nil {
		answer.Patch, answer.PatchType = patch, new(admissionv1.PatchTypeJSONPatch)
	}
	review.Request, review.Response = nil, answer
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(review) // a client that has gone away needs no answer
}
