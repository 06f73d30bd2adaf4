package webhook

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lanyard-k8s/lanyard/mutate"
	"github.com/lanyard-k8s/lanyard/test/podtest"
	"github.com/lanyard-k8s/lanyard/webhook/settings"
)

const minimal = `
publisher: {enabled: true, listed: [team/monitor]}
job: {enabled: true, baseURL: "https://lanyard-exchange.lanyard.svc:8443"}
`

// newDesk is a desk with the real rooms, unless an edit replaces them, and its registry.
func newDesk(tb testing.TB, edits ...func(*Options)) (*Desk, *prometheus.Registry) {
	tb.Helper()
	s, err := settings.Parse([]byte(minimal))
	if err != nil {
		tb.Fatal(err)
	}
	reg := prometheus.NewRegistry()
	m, err := NewMetrics(reg)
	if err != nil {
		tb.Fatal(err)
	}
	o := Options{Settings: s, Metrics: m, Log: logr.Discard(), Rooms: Rooms{
		Pod: mutate.Pod, Stamp: mutate.Stamp, Verify: mutate.Verify, Template: mutate.Template,
	}}
	for _, edit := range edits {
		edit(&o)
	}
	d, err := New(o)
	if err != nil {
		tb.Fatal(err)
	}
	return d, reg
}

// decides replaces every room by one that always decides the same.
func decides(d mutate.Decision, err error) func(*Options) {
	f := func(mutate.Request, mutate.Rules) (mutate.Decision, error) { return d, err }
	return func(o *Options) { o.Rooms = Rooms{Pod: f, Stamp: f, Verify: f, Template: f} }
}

func post(d http.Handler, path string, body []byte) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, path, bytes.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	d.ServeHTTP(w, r)
	return w
}

// reviewed is the response of an answer that must be a review.
func reviewed(tb testing.TB, w *httptest.ResponseRecorder) *admissionv1.AdmissionResponse {
	tb.Helper()
	var ar admissionv1.AdmissionReview
	dec := json.NewDecoder(bytes.NewReader(w.Body.Bytes()))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&ar); err != nil || w.Code != http.StatusOK || ar.Response == nil || ar.Kind != kindReview {
		tb.Fatalf("not a review: code %d, error %v, body %s", w.Code, err, w.Body)
	}
	return ar.Response
}

// failed is the status of an answer that must be an HTTP error.
func failed(tb testing.TB, w *httptest.ResponseRecorder) metav1.Status {
	tb.Helper()
	var st metav1.Status
	if err := json.Unmarshal(w.Body.Bytes(), &st); err != nil || st.Kind != "Status" || int(st.Code) != w.Code {
		tb.Fatalf("not a status: code %d, error %v, body %s", w.Code, err, w.Body)
	}
	return st
}

// ask builds a review; an empty resource means pods.
type ask struct {
	version, resource, group, kind, sub, operation, object, old string
}

func (a ask) body() []byte {
	or := func(s, d string) string {
		if s == "" {
			return d
		}
		return s
	}
	object, old := or(a.object, string(podtest.Small())), or(a.old, "null")
	return []byte(fmt.Sprintf(`{"kind":"AdmissionReview","apiVersion":%q,"request":{"uid":"u-1","kind":{"group":%q,"version":"v1","kind":%q},`+
		`"resource":{"group":%q,"version":"v1","resource":%q},"subResource":%q,"namespace":"team","operation":%q,"userInfo":{"username":"alice","groups":["dev"]},`+
		`"object":%s,"oldObject":%s,"dryRun":false,"options":{"a":[1,{}]}}}`,
		or(a.version, apiV1), a.group, or(a.kind, "Pod"), a.group, or(a.resource, "pods"), a.sub, or(a.operation, "CREATE"), object, old))
}
