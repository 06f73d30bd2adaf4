package exchange_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/delegation"
)

// row is the name of the pod's row.
func row() string { return delegation.PodName(issuedA, username, podUID) }

// delegated writes an active row of the pod, with changes.
func (r *rig) delegated(change ...func(*delegation.Submission, *delegation.Row)) {
	r.t.Helper()
	s := delegation.Submission{
		UID: "job-uid", GroupKind: "batch/Job", Namespace: namespace, Name: "train", Submitter: submitter, Audiences: []string{issuedA},
		Scopes: []string{"openid", "email", "groups"}, State: delegation.Confirmed, ConfirmedAt: time.Now(),
	}
	w := delegation.Row{
		Name: row(), Kind: delegation.Pod, SubmissionUID: s.UID, Bound: delegation.Reference{Name: delegation.ReferencePodUID, Value: podUID},
		Namespace: namespace, ServiceAccount: account, NodeName: node, State: delegation.Active, CreatedAt: time.Now(), ExpiresAt: time.Now().Add(time.Hour),
	}
	for _, c := range change {
		c(&s, &w)
	}
	if w.SubmissionUID != "" {
		_, err := r.store.Confirm(r.t.Context(), s)
		must(r.t, err)
	}
	_, err := r.store.Put(r.t.Context(), w)
	must(r.t, err)
}

// nothingExpires gives a row a day.
func nothingExpires(_ *delegation.Submission, w *delegation.Row) {
	w.ExpiresAt = time.Now().Add(24 * time.Hour)
}

// form is a good request, with changes; an empty value takes a parameter away.
func form(token string, changes ...string) url.Values {
	f := url.Values{
		"grant_type": {wire.GrantTypeTokenExchange}, "client_id": {subjectA}, "subject_token_type": {wire.TokenTypeJWT}, "subject_token": {token},
	}
	for i := 0; i+1 < len(changes); i += 2 {
		f.Set(changes[i], changes[i+1])
		if changes[i+1] == "" {
			f.Del(changes[i])
		}
	}
	return f
}

func good() string { return subject("good", subjectA, time.Now().Add(time.Hour)) }

// answer is what came back.
type answer struct {
	status int
	header http.Header
	body   map[string]any
	text   string
}

func (a answer) code() string {
	s, _ := a.body["error"].(string)
	return s
}

func (a answer) token() string {
	s, _ := a.body["access_token"].(string)
	return s
}

// do sends a request.
func (r *rig) do(req *http.Request) answer {
	r.t.Helper()
	resp, err := r.client().Do(req)
	must(r.t, err)
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	must(r.t, err)
	a := answer{status: resp.StatusCode, header: resp.Header, text: string(raw)}
	if len(raw) > 0 && strings.HasPrefix(resp.Header.Get("Content-Type"), "application/json") {
		must(r.t, json.Unmarshal(raw, &a.body))
	}
	return a
}

func (r *rig) client() *http.Client {
	c := *r.server.Client()
	c.Timeout = 2 * time.Minute // whoever gets no answer says so
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &c
}

func (r *rig) request(method, path string, body io.Reader) *http.Request {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), method, r.server.URL+path, body)
	must(r.t, err)
	return req
}

// post sends a form.
func (r *rig) post(f url.Values) answer {
	r.t.Helper()
	return r.raw(wire.PathToken, wire.FormType, f.Encode())
}

func (r *rig) raw(path, contentType, body string) answer {
	r.t.Helper()
	req := r.request(http.MethodPost, path, strings.NewReader(body))
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	return r.do(req)
}

// get reads a document.
func (r *rig) get(path string) answer {
	r.t.Helper()
	return r.do(r.request(http.MethodGet, path, nil))
}

// granted exchanges and fails the test without a token.
func (r *rig) granted() answer {
	r.t.Helper()
	a := r.post(form(good()))
	if a.status != http.StatusOK || a.token() == "" {
		r.t.Fatalf("got %d %s", a.status, a.text)
	}
	return a
}

// count is the value of a series of requests.
func (r *rig) count(outcome string) float64 {
	r.t.Helper()
	return r.series("lanyard_exchange_requests_total", outcome)
}

// series is the value of a series with this value of the label "outcome".
func (r *rig) series(name, outcome string) float64 {
	r.t.Helper()
	families, err := r.reg.Gather()
	must(r.t, err)
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetName() == "outcome" && l.GetValue() == outcome {
					return m.GetCounter().GetValue()
				}
			}
		}
	}
	r.t.Fatalf("there is no series %s{outcome=%q}", name, outcome)
	return 0
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
