package exchange_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/delegation"
)

// wanted is what a token request must come to.
type wanted struct {
	status int
	code   string // "" is a token
	reason string // of the metric
}

// check compares the answer, its headers and the one series that it counts in.
func (r *rig) check(a answer, want wanted) {
	r.t.Helper()
	if diff := cmp.Diff([]any{want.status, want.code}, []any{a.status, a.code()}); diff != "" {
		r.t.Errorf("status and error (-want +got):\n%s%s", diff, a.text)
	}
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Cache-Control": "no-store", "Pragma": "no-cache", "X-Content-Type-Options": "nosniff",
	} {
		if got := a.header.Get(name); got != value {
			r.t.Errorf("%s: %q, want %q", name, got, value)
		}
	}
	for _, name := range []string{"ETag", "Set-Cookie", "Access-Control-Allow-Origin"} {
		if got := a.header.Get(name); got != "" {
			r.t.Errorf("%s: %q", name, got)
		}
	}
	if later := a.header.Get("Retry-After"); (later != "") != (a.status == 503 || a.status == 429) {
		r.t.Errorf("status %d with Retry-After %q", a.status, later)
	}
	if got := r.count(want.reason); got != 1 {
		r.t.Errorf("outcome %q is counted %v times:\n%s", want.reason, got, r.log)
	}
	if lines := append(r.log.lines("token granted"), r.log.lines("token refused")...); want.reason != "method_not_allowed" &&
		(len(lines) != 1 || lines[0]["outcome"] != want.reason) {
		r.t.Errorf("audit lines: %v", lines)
	}
	description, _ := a.body["error_description"].(string)
	for _, c := range description {
		if c < 0x20 || c == '"' || c == '\\' || c > 0x7e {
			r.t.Errorf("the description holds %q (E2)", c)
		}
	}
}

// TestTransportAndForm is checklist A.
func TestTransportAndForm(t *testing.T) {
	t.Parallel()
	token := good()
	f := form(token)
	ok := wanted{200, "", "granted"}
	invalid := func(reason string) wanted { return wanted{400, "invalid_request", reason} }
	tests := map[string]struct {
		method, path, contentType, body string
		want                            wanted
	}{
		"A1: another method":                  {http.MethodPut, "", wire.FormType, f.Encode(), wanted{405, "invalid_request", "method_not_allowed"}},
		"A2: a JSON body":                     {"", "", "application/json", `{"grant_type":"x"}`, invalid("content_type")},
		"A2: no type":                         {"", "", "", f.Encode(), invalid("content_type")},
		"A2: multipart":                       {"", "", "multipart/form-data; boundary=x", "--x--", invalid("content_type")},
		"A3: a charset":                       {"", "", wire.FormType + "; charset=utf-8", f.Encode(), ok},
		"A4: a query":                         {"", "?subject_token=" + marker, wire.FormType, f.Encode(), invalid("query_present")},
		"A4: an empty query":                  {"", "?", wire.FormType, f.Encode(), invalid("query_present")},
		"A5: grant_type twice":                {"", "", wire.FormType, f.Encode() + "&grant_type=x", invalid("parameter_repeated")},
		"A5: subject_token twice":             {"", "", wire.FormType, f.Encode() + "&subject_token=x", invalid("parameter_repeated")},
		"A5: audience twice (the spec's own)": {"", "", wire.FormType, f.Encode() + "&audience=" + issuedA + "&audience=" + issuedA, invalid("parameter_repeated")},
		"A6: an empty subject_token":          {"", "", wire.FormType, form("", "subject_token", "").Encode() + "&subject_token=", invalid("subject_missing")},
		"A6: an empty audience is none":       {"", "", wire.FormType, f.Encode() + "&audience=", ok},
		"A7: an unknown parameter":            {"", "", wire.FormType, f.Encode() + "&foo=bar", ok},
		"A8: a broken escape":                 {"", "", wire.FormType, "a=%zz", invalid("body_malformed")},
		"A8: a semicolon":                     {"", "", wire.FormType, "a=1;b=2", invalid("body_malformed")},
		"A9: 1 MiB":                           {"", "", wire.FormType, strings.Repeat("a", 1<<20), invalid("body_too_long")},
		"A9: a token of 16 KiB":               {"", "", wire.FormType, form(strings.Repeat("a", 16<<10)).Encode(), invalid("subject_too_long")},
		"A11: a zero byte":                    {"", "", wire.FormType, form("", "subject_token", "").Encode() + "&subject_token=%00", invalid("body_malformed")},
		"A11: no UTF-8":                       {"", "", wire.FormType, form("", "subject_token", "").Encode() + "&subject_token=%ff", invalid("body_malformed")},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, "")
			r.delegated()
			method := tc.method
			if method == "" {
				method = http.MethodPost
			}
			req := r.request(method, wire.PathToken+tc.path, strings.NewReader(tc.body))
			if tc.contentType != "" {
				req.Header.Set("Content-Type", tc.contentType)
			}
			req.Header.Set("Origin", "https://elsewhere.example") // D4
			a := r.do(req)
			r.check(a, tc.want)
			if a.status == 405 && a.header.Get("Allow") != "POST" {
				t.Errorf("Allow: %q", a.header.Get("Allow"))
			}
			if tc.want.status != 200 && r.api.calls.Load() != 0 {
				t.Errorf("the API server was asked %d times", r.api.calls.Load())
			}
		})
	}
}

// TestGrantAndTarget is checklists B and C.
func TestGrantAndTarget(t *testing.T) {
	t.Parallel()
	invalid := func(reason string) wanted { return wanted{400, "invalid_request", reason} }
	target := func(reason string) wanted { return wanted{400, "invalid_target", reason} }
	ok := wanted{200, "", "granted"}
	const docker = "nmp_obo_v1.eA.eA"
	tests := map[string]struct {
		changes []string
		header  string // Authorization
		want    wanted
	}{
		"B1: no grant_type":                      {[]string{"grant_type", ""}, "", invalid("grant_type_missing")},
		"B2: another grant":                      {[]string{"grant_type", "client_credentials"}, "", wanted{400, "unsupported_grant_type", "grant_type_unsupported"}},
		"B3: no subject_token":                   {[]string{"subject_token", ""}, "", invalid("subject_missing")},
		"B3: no subject_token_type":              {[]string{"subject_token_type", ""}, "", invalid("subject_type_unsupported")},
		"B4: a saml2 token":                      {[]string{"subject_token_type", "urn:ietf:params:oauth:token-type:saml2"}, "", invalid("subject_type_unsupported")},
		"B4: an id_token":                        {[]string{"subject_token_type", "urn:ietf:params:oauth:token-type:id_token"}, "", invalid("subject_type_unsupported")},
		"B4: an access token":                    {[]string{"subject_token_type", wire.TokenTypeAccess}, "", invalid("subject_type_unsupported")},
		"B5: a JWT as a Docker proof":            {[]string{"subject_token_type", wire.TokenTypeDockerProof}, "", invalid("proof_malformed")},
		"B5: a Docker proof as a JWT":            {[]string{"subject_token", docker}, "", invalid("review_rejected")},
		"B6: the requested type, named":          {[]string{"requested_token_type", wire.TokenTypeAccess}, "", ok},
		"B7: a refresh token":                    {[]string{"requested_token_type", "urn:ietf:params:oauth:token-type:refresh_token"}, "", invalid("requested_type_unsupported")},
		"B7: a JWT":                              {[]string{"requested_token_type", wire.TokenTypeJWT}, "", invalid("requested_type_unsupported")},
		"B8: an actor's type alone":              {[]string{"actor_token_type", wire.TokenTypeJWT}, "", invalid("actor_present")},
		"B9: an actor":                           {[]string{"actor_token", "x", "actor_token_type", wire.TokenTypeJWT}, "", invalid("actor_present")},
		"B10: a client by Basic":                 {nil, "Basic bmVtbzpz", wanted{401, "invalid_client", "client_unknown"}},
		"B10: a client secret":                   {[]string{"client_secret", "s"}, "", wanted{401, "invalid_client", "client_unknown"}},
		"B11: another client (the spec's own)":   {[]string{"client_id", "other"}, "", wanted{401, "invalid_client", "client_unknown"}},
		"B11: no client":                         {[]string{"client_id", ""}, "", wanted{401, "invalid_client", "client_unknown"}},
		"C1: another audience":                   {[]string{"audience", "https://other"}, "", target("audience_denied")},
		"C1: the subject audience":               {[]string{"audience", subjectA}, "", target("audience_denied")},
		"C3: no audience":                        {nil, "", ok},
		"C4: a resource":                         {[]string{"resource", "https://a#f"}, "", target("resource_present")},
		"C5: a scope that is not (spec: narrow)": {[]string{"scope", "openid admin"}, "", ok},
		"C6: a scope's syntax (spec: narrow)":    {[]string{"scope", `a"b`}, "", ok},
		"order: the grant before the client":     {[]string{"grant_type", "x", "client_id", "other"}, "", wanted{400, "unsupported_grant_type", "grant_type_unsupported"}},
		"order: the client before the type":      {[]string{"client_id", "other", "subject_token_type", "x"}, "", wanted{401, "invalid_client", "client_unknown"}},
		"order: the resource before the token":   {[]string{"resource", "x", "subject_token", ""}, "", target("resource_present")},
		"order: the token before the audience":   {[]string{"audience", "x", "subject_token", ""}, "", invalid("subject_missing")},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, "")
			r.delegated()
			req := r.request(http.MethodPost, wire.PathToken, strings.NewReader(form(good(), tc.changes...).Encode()))
			req.Header.Set("Content-Type", wire.FormType)
			if tc.header != "" {
				req.Header.Set("Authorization", tc.header)
			}
			r.check(r.do(req), tc.want)
			if tc.want.status != 200 && r.api.calls.Load() != 0 {
				t.Errorf("the API server was asked %d times before the form was refused", r.api.calls.Load())
			}
		})
	}
	t.Run("B3: the forbidden three by their presence", func(t *testing.T) {
		t.Parallel()
		for name, want := range map[string]wanted{
			"actor_token": invalid("actor_present"), "actor_token_type": invalid("actor_present"), "resource": target("resource_present"),
		} {
			r := newRig(t, "")
			r.delegated()
			r.check(r.raw(wire.PathToken, wire.FormType, form(good()).Encode()+"&"+name+"="), want)
		}
	})
}

// TestSuccess is checklist D.
func TestSuccess(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		scope []string
		life  time.Duration // of the row
		want  map[string]any
	}{
		"nothing asked": {nil, time.Hour, map[string]any{"scope": nil, "expires_in": 300.0}},
		"some granted":  {[]string{"scope", "email admin openid"}, time.Hour, map[string]any{"scope": "email openid", "expires_in": 300.0}},
		"none granted":  {[]string{"scope", "admin"}, time.Hour, map[string]any{"scope": nil, "expires_in": 300.0}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, "")
			r.delegated()
			a := r.post(form(good(), tc.scope...))
			r.check(a, wanted{200, "", "granted"})
			if _, given := a.body["scope"]; !given {
				t.Error("the scope is left out")
			}
			delete(a.body, "access_token")
			want := map[string]any{"issued_token_type": wire.TokenTypeAccess, "token_type": "Bearer"}
			for k, v := range tc.want {
				want[k] = v
			}
			if diff := cmp.Diff(want, a.body); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	t.Run("D5: never longer than the row or the subject token", func(t *testing.T) {
		t.Parallel()
		r := newRig(t, "")
		r.delegated(func(_ *delegation.Submission, w *delegation.Row) { w.ExpiresAt = time.Now().Add(100 * time.Second) })
		if got, _ := r.granted().body["expires_in"].(float64); got < 95 || got > 100 {
			t.Errorf("expires_in %v of a row that has 100 s left", got)
		}
		a := r.post(form(subject("short", subjectA, time.Now().Add(60*time.Second))))
		if got, _ := a.body["expires_in"].(float64); got < 55 || got > 60 {
			t.Errorf("expires_in %v of a subject token that has 60 s left", got)
		}
	})
}

// TestTheAnswerOfADisabledExchange comes before every other check.
func TestTheAnswerOfADisabledExchange(t *testing.T) {
	t.Parallel()
	r := newRig(t, "enabled: false")
	r.check(r.post(url.Values{}), wanted{400, "invalid_request", "disabled"})
	doc := r.get(wire.PathDiscovery)
	oidc, _ := doc.body["oidc"].(map[string]any)
	if oidc["workload_token_exchange_enabled"] != false || oidc["workload_token_endpoint"] != nil {
		t.Errorf("discovery says %v", oidc)
	}
}
