package exchange_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lanyard-k8s/lanyard/delegation"
	"github.com/lanyard-k8s/lanyard/exchange"
	"github.com/lanyard-k8s/lanyard/internal/obs"
	"github.com/lanyard-k8s/lanyard/internal/tokenreview"
)

// office is the admins' listener with everything that it asks.
type office struct {
	*rig
	admin   *httptest.Server
	verdict error // of the review; nil is a yes
	allowed func(verb exchange.Verb, name string) (bool, error)
}

func (o *office) Review(context.Context, string, *tokenreview.Bucket) (tokenreview.Verdict, error) {
	return tokenreview.Verdict{Username: "system:serviceaccount:lanyard:admin", Namespace: "lanyard", ServiceAccount: "admin", UID: "u"}, o.verdict
}

func (o *office) NewBucket() *tokenreview.Bucket { return nil }

func (o *office) Allowed(_ context.Context, who tokenreview.Verdict, verb exchange.Verb, name string) (bool, error) {
	if o.allowed == nil {
		return true, nil
	}
	return o.allowed(verb, name)
}

func newOffice(t *testing.T) *office {
	t.Helper()
	o := &office{rig: newRig(t, "")}
	log, err := obs.NewLogger(o.log, "debug")
	must(t, err)
	a, err := exchange.NewAdmin(exchange.AdminOptions{Reviewer: o, Authorizer: o, Records: o.store, Metrics: o.metrics, Log: log})
	must(t, err)
	o.admin = httptest.NewServer(a)
	t.Cleanup(o.admin.Close)
	return o
}

// ask sends an admin's request.
func (o *office) ask(method, path, body string) answer {
	o.t.Helper()
	req, err := http.NewRequestWithContext(o.t.Context(), method, o.admin.URL+path, strings.NewReader(body))
	must(o.t, err)
	req.Header.Set("Authorization", "Bearer "+marker)
	req.Header.Set("Content-Type", "application/merge-patch+json")
	return o.do(req)
}

const revoke = `{"revoked": true}`

func TestAdminsInspect(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.delegated()
	p := o.container(delegation.Active)
	list := o.ask("GET", "/admin/records/delegation", "")
	if list.status != 200 || len(list.body["items"].([]any)) != 2 || list.body["after"] != "" {
		t.Fatalf("got %d %s", list.status, list.text)
	}
	for _, a := range []answer{list, o.ask("GET", "/admin/records/delegation/"+p.Name, "")} {
		if !strings.Contains(a.text, `"proof_hash":"[redacted]"`) || strings.Contains(a.text, "v1:sha256") {
			t.Errorf("the hash is shown: %s", a.text)
		}
	}
	first := o.ask("GET", "/admin/records/delegation?limit=1", "")
	after, _ := first.body["after"].(string)
	if second := o.ask("GET", "/admin/records/delegation?limit=1&after="+after, ""); after == "" || first.text == second.text {
		t.Errorf("pages: %s and %s", first.text, second.text)
	}
	got := o.ask("GET", "/admin/records/submission/job-uid", "").body
	delete(got, "confirmed_at")
	want := map[string]any{
		"uid": "job-uid", "group_kind": "batch/Job", "cluster": "", "namespace": namespace, "name": "train", "submitter": submitter,
		"audiences": []any{issuedA}, "scopes": []any{"openid", "email", "groups"}, "state": "CONFIRMED",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if a := o.ask("GET", "/admin/records/submission?submitter=nobody", ""); len(a.body["items"].([]any)) != 0 {
		t.Errorf("got %s", a.text)
	}
	if lines := o.log.lines("records"); len(lines) != 6 || lines[0]["caller"] != "system:serviceaccount:lanyard:admin" {
		t.Errorf("audit lines: %v", lines)
	}
}

func TestAdminsRevoke(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		path string
		want map[string]any
	}{
		"a row":        {"/admin/records/delegation/" + row(), map[string]any{"submissions_revoked": 0.0, "rows_revoked": 1.0}},
		"a submission": {"/admin/records/submission/job-uid", map[string]any{"submissions_revoked": 1.0, "rows_revoked": 1.0}},
		"a submitter":  {"/admin/records/submission?submitter=" + submitter, map[string]any{"submissions_revoked": 1.0, "rows_revoked": 1.0}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newOffice(t)
			o.delegated()
			token := o.granted().token()
			if diff := cmp.Diff(tc.want, o.ask("PATCH", tc.path, revoke).body); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if a := o.post(form(good())); a.status != 400 || o.count("row_revoked") != 1 {
				t.Errorf("an exchange afterwards: %d %s", a.status, a.text)
			}
			if a := o.callout(token); a.status != 401 {
				t.Errorf("a callout afterwards: %d", a.status)
			}
		})
	}
}

// TestAdminsBadInput is every way to be refused.
func TestAdminsBadInput(t *testing.T) {
	t.Parallel()
	invalid, down := &tokenreview.Error{Reason: tokenreview.TokenInvalid}, &tokenreview.Error{Reason: tokenreview.ValidatorUnavailable}
	no := func(exchange.Verb, string) (bool, error) { return false, nil }
	tests := map[string]struct {
		method, path, body string
		verdict            error
		allowed            func(exchange.Verb, string) (bool, error)
		want               int
	}{
		"a refused token":             {"GET", "/admin/records/delegation", "", invalid, nil, 401},
		"the API server is down":      {"GET", "/admin/records/delegation", "", down, nil, 503},
		"no right":                    {"GET", "/admin/records/delegation", "", nil, no, 403},
		"no right to revoke":          {"PATCH", "/admin/records/delegation/x", revoke, nil, func(v exchange.Verb, _ string) (bool, error) { return v != exchange.VerbPatch, nil }, 403},
		"nobody knows":                {"GET", "/admin/records/delegation", "", nil, func(exchange.Verb, string) (bool, error) { return true, errors.New("x") }, 503},
		"another kind":                {"GET", "/admin/records/key", "", nil, nil, 404},
		"another path":                {"GET", "/apis/auth/jwks", "", nil, nil, 404},
		"another method":              {"DELETE", "/admin/records/delegation/x", "", nil, nil, 404},
		"a name below a name":         {"GET", "/admin/records/delegation/x/y", "", nil, nil, 404},
		"no such row":                 {"GET", "/admin/records/delegation/" + row(), "", nil, nil, 404},
		"no such submission":          {"PATCH", "/admin/records/submission/x", revoke, nil, nil, 404},
		"a limit that is none":        {"GET", "/admin/records/delegation?limit=x", "", nil, nil, 400},
		"a limit that is too long":    {"GET", "/admin/records/delegation?limit=1001", "", nil, nil, 400},
		"no body":                     {"PATCH", "/admin/records/submission/x", "", nil, nil, 400},
		"unrevoke":                    {"PATCH", "/admin/records/submission/x", `{"revoked": false}`, nil, nil, 400},
		"another member":              {"PATCH", "/admin/records/submission/x", `{"revoked": true, "submitter": "bob"}`, nil, nil, 400},
		"another case":                {"PATCH", "/admin/records/submission/x", `{"Revoked": true}`, nil, nil, 400},
		"a body that is too long":     {"PATCH", "/admin/records/submission/x", revoke + strings.Repeat(" ", 5000), nil, nil, 400},
		"everything":                  {"PATCH", "/admin/records/submission", revoke, nil, nil, 400},
		"everything of nobody":        {"PATCH", "/admin/records/submission?submitter=", revoke, nil, nil, 400},
		"two submitters":              {"PATCH", "/admin/records/submission?submitter=a&submitter=b", revoke, nil, nil, 400},
		"a submission and its person": {"PATCH", "/admin/records/submission/x?submitter=a", revoke, nil, nil, 400},
		"all rows":                    {"PATCH", "/admin/records/delegation", revoke, nil, nil, 400},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newOffice(t)
			o.verdict, o.allowed = tc.verdict, tc.allowed
			a := o.ask(tc.method, tc.path, tc.body)
			if a.status != tc.want || a.header.Get("Cache-Control") != "no-store" {
				t.Errorf("got %d %s", a.status, a.text)
			}
			if len(o.log.lines("records")) != 1 {
				t.Error("no audit line")
			}
		})
	}
	t.Run("no token", func(t *testing.T) {
		t.Parallel()
		o := newOffice(t)
		resp, err := o.admin.Client().Get(o.admin.URL + "/admin/records/delegation")
		must(t, err)
		_, err = io.Copy(io.Discard, resp.Body)
		must(t, errors.Join(err, resp.Body.Close()))
		if resp.StatusCode != 401 || resp.Header.Get("WWW-Authenticate") == "" {
			t.Errorf("got %d", resp.StatusCode)
		}
	})
	t.Run("the database is down", func(t *testing.T) {
		t.Parallel()
		o := newOffice(t)
		o.store.Fail = func() error { return delegation.ErrUnavailable }
		if a := o.ask("GET", "/admin/records/delegation", ""); a.status != 503 {
			t.Errorf("got %d", a.status)
		}
	})
}

// reviews is an API server's answer to a SubjectAccessReview.
type reviews func(*authorizationv1.SubjectAccessReview) (*authorizationv1.SubjectAccessReview, error)

func (f reviews) Create(_ context.Context, r *authorizationv1.SubjectAccessReview, _ metav1.CreateOptions) (*authorizationv1.SubjectAccessReview, error) {
	return f(r)
}

func TestAccessReviewsNameTheWholeCaller(t *testing.T) {
	t.Parallel()
	var asked authorizationv1.SubjectAccessReviewSpec
	api := reviews(func(r *authorizationv1.SubjectAccessReview) (*authorizationv1.SubjectAccessReview, error) {
		asked = r.Spec
		r.Status.Allowed = true
		return r, nil
	})
	who := tokenreview.Verdict{Username: "system:serviceaccount:lanyard:admin", Namespace: "lanyard", UID: "u", PodUID: "p", CredentialID: "JTI=1"}
	ok, err := exchange.AccessReview{API: api}.Allowed(t.Context(), who, exchange.VerbPatch, "x")
	must(t, err)
	want := authorizationv1.SubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Group: "lanyard.dev", Resource: "records", Verb: "patch", Name: "x", Version: "*"},
		User:               who.Username, UID: "u", Groups: []string{"system:serviceaccounts", "system:serviceaccounts:lanyard", "system:authenticated"},
		Extra: map[string]authorizationv1.ExtraValue{"authentication.kubernetes.io/pod-uid": {"p"}, "authentication.kubernetes.io/credential-id": {"JTI=1"}},
	}
	if diff := cmp.Diff(want, asked); diff != "" || !ok {
		t.Errorf("allowed %v (-want +got):\n%s", ok, diff)
	}
	if _, err := (exchange.AccessReview{}).Allowed(t.Context(), who, exchange.VerbGet, ""); err == nil {
		t.Error("nobody was asked, and there is no error")
	}
	denied := reviews(func(r *authorizationv1.SubjectAccessReview) (*authorizationv1.SubjectAccessReview, error) {
		r.Status.Allowed, r.Status.Denied = true, true
		return r, nil
	})
	if ok, _ := (exchange.AccessReview{API: denied}).Allowed(t.Context(), who, exchange.VerbGet, ""); ok {
		t.Error("denied is allowed")
	}
}

// TestPlainHTTPIsForLoopback is A10.
func TestPlainHTTPIsForLoopback(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]bool{"127.0.0.1:0": true, "0.0.0.0:0": false} {
		l := listen(t, address)
		_, err := exchange.Serve(l, exchange.NewServer(http.NotFoundHandler(), nil, 0, logr.Discard()), time.Second, nil, logr.Discard())
		if (err == nil) != want {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// TestSlowBodiesAreCut is A12, as the server's deadlines.
func TestSlowBodiesAreCut(t *testing.T) {
	t.Parallel()
	s := exchange.NewServer(http.NotFoundHandler(), nil, 5*time.Second, logr.Discard())
	if s.ReadHeaderTimeout > 5*time.Second || s.ReadTimeout > 10*time.Second || s.ReadTimeout == 0 || s.WriteTimeout <= 5*time.Second || s.IdleTimeout == 0 {
		t.Errorf("deadlines %v %v %v %v", s.ReadHeaderTimeout, s.ReadTimeout, s.WriteTimeout, s.IdleTimeout)
	}
}

// TestAdminsOfThisMachine: on a socket that root alone reaches nobody brings a token, and each use is audited all the same.
func TestAdminsOfThisMachine(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.delegated()
	p := o.container(delegation.Active)
	log, err := obs.NewLogger(o.log, "debug")
	must(t, err)
	a, err := exchange.NewAdmin(exchange.AdminOptions{Local: &tokenreview.Verdict{Username: "unix:0"}, Records: o.store, Metrics: o.metrics, Log: log})
	must(t, err)
	o.admin.Close()
	o.admin = httptest.NewServer(a)
	defer o.admin.Close()
	if got := o.ask("PATCH", "/admin/records/delegation/"+p.Name, revoke); got.status != 200 || got.body["rows_revoked"] != 1.0 {
		t.Errorf("got %d %s", got.status, got.text)
	}
	if got := o.ask("GET", "/admin/records/secrets", ""); got.status != 404 {
		t.Errorf("another kind: %d %s", got.status, got.text)
	}
	if !strings.Contains(o.log.String(), `"caller":"unix:0"`) {
		t.Errorf("no audit line: %s", o.log.String())
	}
	for _, two := range []exchange.AdminOptions{
		{Records: o.store, Metrics: o.metrics},
		{Records: o.store, Metrics: o.metrics, Reviewer: o, Authorizer: o, Local: &tokenreview.Verdict{}},
	} {
		if _, err := exchange.NewAdmin(two); err == nil || !strings.Contains(err.Error(), "a reviewer and an authorizer, or else Local") {
			t.Errorf("admins who are identified in no way, or in two: %v", err)
		}
	}
}
