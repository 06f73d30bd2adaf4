package webhook

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lanyard-k8s/lanyard/api/wire"
)

func TestUnreadableRequests(t *testing.T) {
	t.Parallel()
	head := `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u-1",`
	tests := map[string]struct {
		body     string
		wantUID  bool // answered as a review
		wantSays string
	}{
		"an empty body":                        {"", false, "byte 0"},
		"an empty object":                      {"{}", false, "kind must be"},
		"a list":                               {"[]", false, "the body must be an object"},
		"a null request":                       {`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":null}`, false, "request is null"},
		"no uid":                               {`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{}}`, false, "request.uid"},
		"a uid that is a number":               {`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":1}}`, false, "not a string"},
		"a version nobody knows":               {`{"apiVersion":"admission.k8s.io/v2","kind":"AdmissionReview","request":{"uid":"u-1"}}`, false, "apiVersion must be"},
		"another kind":                         {`{"apiVersion":"admission.k8s.io/v1","kind":"Pod","request":{"uid":"u-1"}}`, true, "kind must be"},
		"names in another case":                {`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","Request":{"UID":"u-1"}}`, false, "request.uid"},
		"the uid twice":                        {head + `"uid":"u-2"}}`, true, "stands twice"},
		"the object twice":                     {head + `"object":{},"object":{}}}`, true, "stands twice"},
		"cut short after the uid":              {head + `"object":{"a":`, true, "not valid JSON"},
		"broken syntax after the uid":          {head + `"object":{"a" 1}}}`, true, "not valid JSON at byte"},
		"something after the review":           {head + `"operation":"CREATE"}} {}`, true, "follows"},
		"no object":                            {head + `"operation":"CREATE","resource":{"resource":"pods"},"kind":{"kind":"Pod"}}}`, true, "request.object is missing"},
		"an update without its old object":     {head + `"operation":"UPDATE","object":{}}}`, true, "request.oldObject is missing"},
		"groups that are a string":             {head + `"userInfo":{"groups":"x"}}}`, true, "not a list"},
		"an object that is a list":             {string(ask{object: "[]"}.body()), true, "malformed object"},
		"an object with a name that is double": {string(ask{object: `{"spec":{"containers":[{"env":[],"env":[]}]}}`}.body()), true, "stands twice"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, _ := newDesk(t)
			w := post(d, wire.PathMutateJob, []byte(tc.body))
			if !tc.wantUID {
				if st := failed(t, w); w.Code != http.StatusBadRequest || !strings.Contains(st.Message, tc.wantSays) {
					t.Errorf("got %d %s", w.Code, w.Body)
				}
				return
			}
			if r := reviewed(t, w); r.Allowed || r.UID != "u-1" || r.Result.Code != http.StatusBadRequest || !strings.Contains(r.Result.Message, tc.wantSays) {
				t.Errorf("got %s", w.Body)
			}
		})
	}
}

func TestHTTPErrors(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		method, path, kind string
		body               io.Reader
		wantCode           int
		wantReason         metav1.StatusReason
	}{
		"a path that is not ours":        {"POST", "/mutate", "application/json", nil, 404, metav1.StatusReasonNotFound},
		"a path with a slash behind":     {"POST", wire.PathMutateJob + "/", "application/json", nil, 404, metav1.StatusReasonNotFound},
		"another method":                 {"GET", wire.PathMutateJob, "application/json", nil, 405, metav1.StatusReasonMethodNotAllowed},
		"another content type":           {"POST", wire.PathMutateJob, "application/yaml", nil, 415, metav1.StatusReasonUnsupportedMediaType},
		"no content type":                {"POST", wire.PathMutateJob, "", nil, 415, metav1.StatusReasonUnsupportedMediaType},
		"a body that says it is too big": {"POST", wire.PathMutateJob, "application/json; charset=utf-8", strings.NewReader(strings.Repeat(" ", 7<<20+1)), 413, metav1.StatusReasonRequestEntityTooLarge},
		"a body that turns out too big":  {"POST", wire.PathMutateJob, "application/json", io.MultiReader(strings.NewReader(strings.Repeat(" ", 7<<20+1))), 413, metav1.StatusReasonRequestEntityTooLarge},
		"a body that breaks off":         {"POST", wire.PathMutateJob, "application/json", io.MultiReader(strings.NewReader("{"), brokenReader{}), 408, metav1.StatusReasonTimeout},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, _ := newDesk(t)
			r := httptest.NewRequest(tc.method, tc.path, tc.body)
			r.Header.Set("Content-Type", tc.kind)
			w := httptest.NewRecorder()
			d.ServeHTTP(w, r)
			if st := failed(t, w); w.Code != tc.wantCode || st.Reason != tc.wantReason || st.Message == "" {
				t.Errorf("got %d %s", w.Code, w.Body)
			}
		})
	}
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }
