package webhook

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/lanyard-k8s/lanyard/internal/obs"
	"github.com/lanyard-k8s/lanyard/mutate"
	"github.com/lanyard-k8s/lanyard/test/podtest"
)

// marker looks like a token and must never come out again.
const marker = "eyJhbGciOiJSUzI1NiJ9.bWFya2VyLW1hcmtlci1tYXJrZXI.c2lnbmF0dXJl"

// locked is a buffer for logs.
type locked struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// marked are bodies that hold the marker wherever a person could put it.
func marked() map[string][]byte {
	pod := func(edits ...podtest.Edit) string { return string(podtest.Pod(edits...).JSON()) }
	in := func(edits ...podtest.Edit) podtest.Edit {
		return podtest.Containers(podtest.Container("main", edits...))
	}
	bad := pod(in(podtest.Env("NMP_PRINCIPAL", marker), podtest.Env("X", marker)), podtest.Annotation("example.com/a", marker))
	return map[string][]byte{
		"a variable's value":             ask{object: pod(in(podtest.Env("A", marker)))}.body(),
		"a reserved variable's value":    ask{object: bad}.body(),
		"an endpoint's value":            ask{object: pod(in(podtest.Env("NMP_BASE_URL", "https://"+marker)))}.body(),
		"our annotation's value":         ask{object: pod(in(), podtest.Annotation("lanyard.dev/token-expiration-seconds", marker))}.body(),
		"a foreign annotation":           ask{object: pod(in(), podtest.Annotation("example.com/a", marker))}.body(),
		"our volume's content":           ask{object: pod(in(), podtest.Volume(`{"name":"nmp-workload-identity","secret":{"secretName":"`+marker+`"}}`))}.body(),
		"a variable of a wrong type":     ask{object: `{"spec":{"containers":[{"name":"a","env":"` + marker + `"}]}}`}.body(),
		"an object that is a string":     ask{object: `"` + marker + `"`}.body(),
		"a broken string":                ask{object: `{"a":"` + marker + "\n" + `"}`}.body(),
		"a template's variable":          ask{resource: "jobs", group: "batch", kind: "Job", object: `{"metadata":{},"spec":{"template":` + bad + `}}`}.body(),
		"an ephemeral container":         ask{operation: "UPDATE", sub: ephemeral, object: bad, old: bad}.body(),
		"the whole body":                 []byte(marker),
		"the whole body in quotes":       []byte(`"` + marker + `"`),
		"an unknown field of the review": []byte(`{"` + marker + `":"` + marker + `"`),
		"the uid's place":                []byte(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":["` + marker + `"]}}`),
		"the review's kind":              []byte(`{"apiVersion":"` + marker + `","kind":"` + marker + `","request":{"uid":"u-1"}}`),
		"the dry run's place":            []byte(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u-1","dryRun":"` + marker + `"}}`),
	}
}

func TestTokenNeverComesOut(t *testing.T) {
	t.Parallel()
	panics := func(p any) func(*Options) {
		f := func(mutate.Request, mutate.Rules) (mutate.Decision, error) { panic(p) }
		return func(o *Options) { o.Rooms = Rooms{Pod: f, Stamp: f, Verify: f, Template: f} }
	}
	desks := map[string]func(*Options){
		"as it is":                 func(*Options) {},
		"in mode audit":            func(o *Options) { o.Settings.Rules.Mode = mutate.Audit },
		"under strict names":       func(o *Options) { o.Settings.Rules.StrictNames, o.Settings.Rules.ProtectEndpoints = true, true },
		"panicking with the value": panics(marker),
		"panicking with an error":  panics(fmt.Errorf("found %w", errors.New(marker))),
	}
	for name, edit := range desks {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var logs locked
			log, err := obs.NewLogger(&logs, "debug")
			if err != nil {
				t.Fatal(err)
			}
			d, reg := newDesk(t, edit, func(o *Options) { o.Log = log })
			for what, body := range marked() {
				for _, h := range hooks() {
					r := httptest.NewRequest(http.MethodPost, h.path, bytes.NewReader(body))
					r.Header.Set("Content-Type", "application/json")
					r.Header.Set("Authorization", "Bearer "+marker)
					w := httptest.NewRecorder()
					d.ServeHTTP(w, r)
					clean(t, "answer to "+what+" on "+h.path, w.Body.String()+fmt.Sprint(w.Header()))
					clean(t, "patch for "+what+" on "+h.path, patchOf(w.Body.Bytes()))
				}
			}
			w := httptest.NewRecorder()
			promhttp.HandlerFor(reg, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
			clean(t, "metrics", w.Body.String())
			clean(t, "logs", logs.b.String())
			if logs.b.Len() == 0 {
				t.Error("nothing was logged, so that the test shows nothing")
			}
		})
	}
}

func patchOf(body []byte) string {
	var ar struct{ Response struct{ Patch []byte } }
	_ = json.Unmarshal(body, &ar)
	return string(ar.Response.Patch)
}

// clean looks for every part of the marker and for its base64.
func clean(t *testing.T, where, text string) {
	t.Helper()
	for _, part := range append(strings.Split(marker, "."), base64.StdEncoding.EncodeToString([]byte(marker))[:20]) {
		if strings.Contains(text, part) {
			t.Errorf("%s holds the marker: %s", where, text)
		}
	}
}
