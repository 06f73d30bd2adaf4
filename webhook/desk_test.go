package webhook

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/mutate"
	"github.com/lanyard-k8s/lanyard/mutate/violation"
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

func TestReviewIsAnsweredInItsVersion(t *testing.T) {
	t.Parallel()
	d, _ := newDesk(t)
	for _, version := range []string{apiV1, apiV1Beta1} {
		w := post(d, wire.PathMutateJob, ask{version: version}.body())
		if r := reviewed(t, w); !r.Allowed || r.UID != "u-1" || r.Patch == nil || *r.PatchType != admissionv1.PatchTypeJSONPatch {
			t.Errorf("%s: %s", version, w.Body)
		}
		if !strings.Contains(w.Body.String(), `"apiVersion":"`+version+`"`) {
			t.Errorf("%s is not echoed: %s", version, w.Body)
		}
	}
}

func TestSecondCallHasNoPatchAndNoPatchType(t *testing.T) {
	t.Parallel()
	d, _ := newDesk(t, decides(mutate.Decision{Outcome: mutate.Already}, nil))
	if b := post(d, wire.PathMutateJob, ask{}.body()).Body.String(); strings.Contains(b, "patch") {
		t.Errorf("got %s", b)
	}
}

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

func TestRouting(t *testing.T) {
	t.Parallel()
	job := ask{resource: "jobs", group: "batch", kind: "Job"}
	with := func(a ask, edit func(*ask)) ask { edit(&a); return a }
	update := func(a *ask) { a.operation, a.old = "UPDATE", "{}" }
	status := func(a *ask) { update(a); a.sub = "status" }
	debug := func(a *ask) { update(a); a.sub = ephemeral }
	remove := func(a *ask) { a.operation = "DELETE" }
	tests := map[string]struct {
		path string
		ask  ask
		want string // the room, or "" for unexpected
	}{
		"a pod is mutated":                               {wire.PathMutateJob, ask{}, "pod"},
		"a publisher's pod is mutated":                   {wire.PathMutatePublisher, ask{}, "pod"},
		"a listed pod is mutated":                        {wire.PathMutateListed, ask{}, "pod"},
		"a job is stamped":                               {wire.PathMutateJob, job, "stamp"},
		"a job's update is stamped":                      {wire.PathMutateJob, with(job, update), "stamp"},
		"a parent is stamped":                            {wire.PathMutateJob, ask{resource: "cronjobs", group: "batch", kind: "CronJob"}, "stamp"},
		"a pod is verified":                              {wire.PathValidateJob, ask{}, "verify"},
		"an ephemeral container is verified":             {wire.PathValidateListed, with(ask{}, debug), "verify"},
		"a template is checked":                          {wire.PathValidateTemplate, with(job, update), "template"},
		"a kind we have never heard of is checked":       {wire.PathValidateTemplate, ask{resource: "rayjobs", group: "ray.io", kind: "RayJob"}, "template"},
		"a pod's update is never expected":               {wire.PathMutateJob, with(ask{}, update), ""},
		"an ephemeral container is not mutated":          {wire.PathMutateJob, with(ask{}, debug), ""},
		"a pod's update is not verified":                 {wire.PathValidateJob, with(ask{}, update), ""},
		"a pod's status is not verified":                 {wire.PathValidateJob, with(ask{}, status), ""},
		"a job's status is not stamped":                  {wire.PathMutateJob, with(job, status), ""},
		"a job is not stamped for publishers":            {wire.PathMutatePublisher, job, ""},
		"a job is not verified":                          {wire.PathValidateJob, job, ""},
		"a kind that is not in the table is not stamped": {wire.PathMutateJob, ask{resource: "deployments", group: "apps", kind: "Deployment"}, ""},
		"a deletion is never expected":                   {wire.PathValidateTemplate, with(job, remove), ""},
		"a pod is not a template":                        {wire.PathValidateTemplate, ask{}, ""},
		"a Pod of another group is not a pod":            {wire.PathMutateJob, ask{group: "example.com"}, ""},
		"a pod that claims to be a Job's resource":       {wire.PathMutateJob, ask{resource: "jobs"}, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := ""
			room := func(name string) Decide {
				return func(mutate.Request, mutate.Rules) (mutate.Decision, error) {
					got = name
					return mutate.Decision{Outcome: mutate.Skipped}, nil
				}
			}
			d, _ := newDesk(t, func(o *Options) {
				o.Rooms = Rooms{Pod: room("pod"), Stamp: room("stamp"), Verify: room("verify"), Template: room("template")}
			})
			r := reviewed(t, post(d, tc.path, tc.ask.body()))
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("room (-want +got):\n%s", diff)
			}
			if r.Allowed != (tc.want != "") {
				t.Errorf("allowed %v", r.Allowed)
			}
			if tc.want == "" && (r.Result.Code != 400 || !strings.Contains(r.Result.Message, "has no rule for")) {
				t.Errorf("result %+v", r.Result)
			}
		})
	}
}

func TestRoomSeesTheRequest(t *testing.T) {
	t.Parallel()
	var got mutate.Request
	d, _ := newDesk(t, func(o *Options) {
		o.Rooms.Verify = func(r mutate.Request, _ mutate.Rules) (mutate.Decision, error) {
			r.Object, r.OldObject = bytes.Clone(r.Object), bytes.Clone(r.OldObject)
			got = r
			return mutate.Decision{Outcome: mutate.Allowed}, nil
		}
	})
	post(d, wire.PathValidatePublisher, ask{operation: "UPDATE", sub: ephemeral, object: `{"a": "ä\u00e4"}`, old: `{ }`}.body())
	want := mutate.Request{
		Entry: mutate.EntryPublisher, Operation: mutate.Update, Kind: mutate.GroupKind{Kind: "Pod"}, Subresource: ephemeral,
		Namespace: "team", Username: "alice", Groups: []string{"dev"}, Object: []byte(`{"a": "ä\u00e4"}`), OldObject: []byte(`{ }`),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("request (-want +got):\n%s", diff)
	}
}

func TestOutcomeThatIsNotDecidedNeverAllows(t *testing.T) {
	t.Parallel()
	for _, o := range []mutate.Outcome{"", "nonsense", mutate.Denied} {
		d, _ := newDesk(t, decides(mutate.Decision{Outcome: o, Patch: []mutate.Op{{Op: "add", Path: "/a", Value: []byte("1")}}}, nil))
		r := reviewed(t, post(d, wire.PathMutateJob, ask{}.body()))
		if r.Allowed || r.Result.Code != 403 || r.Result.Message == "" || r.Patch != nil {
			t.Errorf("%q: %+v", o, r)
		}
	}
}

func TestPanicIsContained(t *testing.T) {
	t.Parallel()
	d, _ := newDesk(t, func(o *Options) {
		o.Rooms.Pod = func(mutate.Request, mutate.Rules) (mutate.Decision, error) { panic("secret") }
	})
	w := post(d, wire.PathMutateJob, ask{}.body())
	st := failed(t, w)
	if w.Code != 500 || st.Details == nil || st.Details.UID != "u-1" || strings.Contains(w.Body.String(), "secret") {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}

func TestDryRunGetsEqualBytes(t *testing.T) {
	t.Parallel()
	d, _ := newDesk(t)
	body := ask{}.body()
	dry := bytes.Replace(body, []byte(`"dryRun":false`), []byte(`"dryRun":true`), 1)
	a, b := post(d, wire.PathMutateJob, body).Body.String(), post(d, wire.PathMutateJob, dry).Body.String()
	if diff := cmp.Diff(a, b); diff != "" {
		t.Errorf("(-real +dry):\n%s", diff)
	}
}

func TestRefusalSaysEverythingAtOnce(t *testing.T) {
	t.Parallel()
	var vs []violation.Violation
	for i := range 30 {
		vs = append(vs, violation.Violation{Reason: violation.ReservedEnv, Field: fmt.Sprintf("spec.containers[%02d].env[0].name", 29-i), Message: "is the platform's; remove it"})
	}
	vs = append(vs, violation.Violation{Reason: violation.NotInjected, Field: "a", Message: "the token is not there"})
	d, _ := newDesk(t, decides(mutate.Decision{Outcome: mutate.Denied, Violations: vs, More: 4}, nil))
	r := reviewed(t, post(d, wire.PathValidateJob, ask{}.body()))
	if r.Result.Code != 403 || r.Result.Reason != metav1.StatusReasonForbidden || len(r.Result.Details.Causes) != maxViolations {
		t.Fatalf("result %+v", r.Result)
	}
	first := metav1.StatusCause{Type: metav1.CauseTypeFieldValueRequired, Message: "Required value: the token is not there", Field: "a"}
	if diff := cmp.Diff(first, r.Result.Details.Causes[0]); diff != "" {
		t.Errorf("first cause (-want +got):\n%s", diff)
	}
	for _, want := range []string{
		"[a: Required value: the token is not there, spec.containers[00].env[0].name: Forbidden: is the platform's; remove it, ",
		", and 10 more]; see " + settings.DefaultDocsURL,
	} {
		if !strings.Contains(r.Result.Message, want) {
			t.Errorf("message lacks %q: %s", want, r.Result.Message)
		}
	}
	if got := r.AuditAnnotations[wire.AuditReasons]; got != "not_injected,reserved_env" {
		t.Errorf("reasons %q", got)
	}
}

func TestWarningsAreBounded(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ä", 200)
	d, _ := newDesk(t, decides(mutate.Decision{Outcome: mutate.Allowed, Warnings: []string{long, "two\nlines", "3", "4", "5", "6", "7"}}, nil))
	got := reviewed(t, post(d, wire.PathValidateJob, ask{}.body())).Warnings
	want := []string{strings.Repeat("ä", 117) + "...", "two lines", "3", "4", "and 3 more warnings"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAuditAnnotations(t *testing.T) {
	t.Parallel()
	d, _ := newDesk(t)
	got := reviewed(t, post(d, wire.PathMutateJob, ask{}.body())).AuditAnnotations
	want := map[string]string{
		wire.AuditRole: "job", wire.AuditDecision: "injected", wire.AuditAudience: wire.DefaultJobAudience, wire.AuditRuleVersion: d.version,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
