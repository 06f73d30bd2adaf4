//go:build unix

package redteam

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lanyard-k8s/lanyard/certs"
)

// Whether the API server asks an injector again after ours.
const (
	never    = "Never"
	ifNeeded = "IfNeeded"
)

const mutating = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"

// injector is a mutating webhook of somebody else's, which patches every pod that that it is asked about.
type injector struct {
	patch string // RFC 6902
	calls atomic.Int64
}

// inject registers a webhook for the pods with this label value, before ("aaa-") or after ("zzz-") ours, and waits until
// the API server calls it. A cluster admin does this; the attacker may not.
func (w *world) inject(t *testing.T, order, label, again, patch string) {
	t.Helper()
	i := &injector{patch: patch}
	url, ca := i.serve(t)
	name := order + label
	w.root().do(t.Context(), http.MethodPost, mutating, object{
		"metadata": object{"name": name},
		"webhooks": []any{object{
			"name": "injector.red.example.com", "admissionReviewVersions": []string{"v1"}, "sideEffects": "None", "failurePolicy": "Fail",
			"reinvocationPolicy": again, "clientConfig": object{"url": url, "caBundle": ca},
			"objectSelector": object{"matchLabels": object{"inject": label}},
			"rules":          []any{object{"apiGroups": []string{""}, "apiVersions": []string{"v1"}, "operations": []string{"CREATE"}, "resources": []string{"pods"}}},
		}},
	}).accepted(t)
	t.Cleanup(func() { w.root().do(context.Background(), http.MethodDelete, mutating+"/"+name, nil) })
	probe := pod()
	probe.At("metadata", "labels")["inject"] = label
	eventually(t, "the injector is called", func(ctx context.Context) (bool, error) {
		w.root().do(ctx, http.MethodPost, at(plain, "pods")+"?dryRun=All", probe)
		return i.calls.Load() > 0, nil
	})
}

func (i *injector) serve(t *testing.T) (url string, ca []byte) {
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
	server := httptest.NewUnstartedServer(i)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{served}}
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.URL, authority.CA()
}

// ServeHTTP answers with the patch.
func (i *injector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	i.calls.Add(1)
	var review struct {
		Request struct {
			UID string `json:"uid"`
		} `json:"request"`
	}
	if json.NewDecoder(r.Body).Decode(&review) != nil {
		http.Error(w, "unreadable", http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(object{ // a client that has gone away needs no answer
		"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
		"response": object{"uid": review.Request.UID, "allowed": true, "patch": []byte(i.patch), "patchType": "JSONPatch"},
	})
}
