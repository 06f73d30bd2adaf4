package exchange_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/textproto"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/delegation"
	"github.com/lanyard-k8s/lanyard/exchange/grant"
	"github.com/lanyard-k8s/lanyard/internal/mint"
)

// part decodes one part of a token.
func part(t testing.TB, token string, i int) map[string]any {
	t.Helper()
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		t.Fatalf("the token has %d parts", len(parts))
	}
	raw, err := base64.RawURLEncoding.DecodeString(parts[i])
	must(t, err)
	var out map[string]any
	must(t, json.Unmarshal(raw, &out))
	return out
}

func claimsOf(t testing.TB, token string) map[string]any { t.Helper(); return part(t, token, 1) }

// TestTheToken is checklist H.
func TestTheToken(t *testing.T) {
	t.Parallel()
	r := newRig(t, "claims: {email: true, groups: true, subjects: [{subject: "+submitter+", email: alice@example.com, groups: [ml, 'a,b', 'system:masters']}]}")
	r.delegated()
	start := time.Now().Unix()
	a := r.post(form(good(), "scope", "openid groups"))
	token := a.token()
	header := part(t, token, 0)
	set := r.get(wire.PathJWKS)
	kid := set.body["keys"].([]any)[0].(map[string]any)["kid"]
	if diff := cmp.Diff(map[string]any{"alg": "ES256", "typ": "at+jwt", "kid": kid}, header); diff != "" { // H1
		t.Errorf("header (-want +got):\n%s", diff)
	}
	got := claimsOf(t, token)
	jti, _ := got["jti"].(string)
	name, ok := mint.RowOf(jti) // H9
	if !ok || name != row() || len(jti) < len(name)+22 {
		t.Errorf("jti %q", jti)
	}
	iat, _ := got["iat"].(float64)
	if int64(iat) < start || got["nbf"] != got["iat"] || got["exp"] != iat+300 {
		t.Errorf("times %v %v %v", got["iat"], got["nbf"], got["exp"])
	}
	for _, k := range []string{"jti", "iat", "nbf", "exp"} {
		delete(got, k)
	}
	want := map[string]any{ // H2, H3, H4
		"iss": issuer, "sub": submitter, "aud": issuedA, "client_id": subjectA, "act": map[string]any{"sub": username}, "scope": "openid groups",
		"email": "alice@example.com", "groups": "ml",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("claims (-want +got):\n%s", diff)
	}
	sig, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[2])
	if err != nil || len(sig) != 64 { // H11
		t.Errorf("the signature has %d bytes", len(sig))
	}
	if diff := cmp.Diff("openid groups", a.body["scope"]); diff != "" {
		t.Error(diff)
	}
	if n := len(token); n > 8<<10 { // H12
		t.Errorf("the token has %d bytes", n)
	}
}

// TestOtherAlgorithms: RS256 and EdDSA are chosen by configuration and verify as well.
func TestOtherAlgorithms(t *testing.T) {
	t.Parallel()
	for _, alg := range mint.Algs() {
		t.Run(string(alg), func(t *testing.T) {
			t.Parallel()
			r := newRig(t, "keys: {directory: /keys, algorithm: "+string(alg)+"}")
			r.delegated()
			token := r.granted().token()
			if got := part(t, token, 0)["alg"]; got != string(alg) {
				t.Errorf("alg %v", got)
			}
			if a := r.callout(token); a.status != 200 {
				t.Errorf("the callout: %d %s", a.status, a.text)
			}
		})
	}
}

// callout asks as a gateway does.
func (r *rig) callout(token string) answer {
	r.t.Helper()
	req := r.request(http.MethodGet, wire.PathAuthenticate, nil)
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	return r.do(req)
}

// foreign signs claims with a key of the rig's, or another.
func (r *rig) foreign(change func(*grant.Claims)) string {
	r.t.Helper()
	c := grant.Claims{
		Issuer: issuer, Subject: submitter, Actor: grant.Actor{Subject: username}, Audience: issuedA, ClientID: subjectA,
		IssuedAt: time.Now().Unix(), NotBefore: time.Now().Unix(), Expiry: time.Now().Unix() + 300, ID: mint.NewID(row()),
	}
	change(&c)
	signer, err := r.keeper.Signer(time.Now())
	must(r.t, err)
	token, err := signer.Sign(c)
	must(r.t, err)
	return token
}

// TestTheCallout is checklist I at the gateways' door, and the outcomes of its own.
func TestTheCallout(t *testing.T) {
	t.Parallel()
	other, err := mint.Generate(mint.ES256)
	must(t, err)
	forged := func(r *rig) string {
		s, err := mint.NewSigner(other)
		must(r.t, err)
		c := grant.Claims{Issuer: issuer, Subject: submitter, Actor: grant.Actor{Subject: username}, Audience: issuedA, ClientID: subjectA, IssuedAt: 1, NotBefore: 1, Expiry: 1 << 33, ID: mint.NewID(row())}
		token, err := s.Sign(c)
		must(r.t, err)
		return token
	}
	reheaded := func(header string) func(*rig) string {
		return func(r *rig) string {
			parts := strings.SplitN(r.foreign(func(*grant.Claims) {}), ".", 2)
			kid, _ := part(r.t, strings.Join(parts, "."), 0)["kid"].(string)
			return base64.RawURLEncoding.EncodeToString([]byte(strings.ReplaceAll(header, "KID", kid))) + "." + parts[1]
		}
	}
	at := func(shift time.Duration) func(*rig) string {
		return func(r *rig) string {
			return r.foreign(func(c *grant.Claims) {
				c.Expiry = time.Now().Add(shift).Unix()
				c.IssuedAt, c.NotBefore = c.Expiry-300, c.Expiry-300
			})
		}
	}
	change := func(f func(*grant.Claims)) func(*rig) string { return func(r *rig) string { return r.foreign(f) } }
	tests := map[string]struct {
		token func(*rig) string
		want  string // outcome
	}{
		"a good one":                       {change(func(*grant.Claims) {}), "allowed"},
		"I1: alg none":                     {reheaded(`{"alg":"none","kid":"KID","typ":"at+jwt"}`), "algorithm"},
		"I1: HS256":                        {reheaded(`{"alg":"HS256","kid":"KID","typ":"at+jwt"}`), "algorithm"},
		"I1: RS256 with an EC key":         {reheaded(`{"alg":"RS256","kid":"KID","typ":"at+jwt"}`), "algorithm"},
		"I2: typ JWT":                      {reheaded(`{"alg":"ES256","kid":"KID","typ":"JWT"}`), "type"},
		"I2: no typ":                       {reheaded(`{"alg":"ES256","kid":"KID"}`), "type"},
		"I3: a key in the header":          {reheaded(`{"alg":"ES256","kid":"KID","typ":"at+jwt","jwk":{}}`), "header"},
		"I3: an unknown crit":              {reheaded(`{"alg":"ES256","kid":"KID","typ":"at+jwt","crit":["x"]}`), "header"},
		"I3: a path as kid":                {reheaded(`{"alg":"ES256","kid":"../../etc/passwd","typ":"at+jwt"}`), "unknown_key"},
		"a key of somebody else's":         {forged, "unknown_key"},
		"a changed header":                 {reheaded(`{"alg":"ES256","kid":"KID","typ":"AT+JWT"}`), "signature"},
		"I5: another audience":             {change(func(c *grant.Claims) { c.Audience = issuedA + "2" }), "audience"},
		"I6: the issuer with a slash":      {change(func(c *grant.Claims) { c.Issuer += "/" }), "issuer"},
		"I7: expired 30 s ago":             {at(-30 * time.Second), "allowed"},
		"I7: expired 90 s ago":             {at(-90 * time.Second), "expired"},
		"I7: issued in 30 s":               {at(330 * time.Second), "allowed"},
		"I7: issued in 90 s":               {at(390 * time.Second), "not_yet"},
		"I9: a service account token":      {func(*rig) string { return good() }, "type"},
		"a reserved subject":               {change(func(c *grant.Claims) { c.Subject = "system:admin" }), "subject"},
		"a subject with a space":           {change(func(c *grant.Claims) { c.Subject = "a b" }), "identity"},
		"a subject with a newline":         {change(func(c *grant.Claims) { c.Subject = "a\nX-NMP-Internal: 1" }), "identity"},
		"a scope with a control":           {change(func(c *grant.Claims) { c.Scope = "a\r\nb" }), "identity"},
		"an actor that is too long":        {change(func(c *grant.Claims) { c.Actor.Subject = strings.Repeat("a", 513) }), "identity"},
		"an id without a row":              {change(func(c *grant.Claims) { c.ID = "x" }), "row_unknown"},
		"an id of another row":             {change(func(c *grant.Claims) { c.ID = mint.NewID(delegation.JobName("a", "b", "c", "d")) }), "row_ended"},
		"another submitter than the row's": {change(func(c *grant.Claims) { c.Subject = "bob" }), "row_ended"},
		"no token":                         {func(*rig) string { return "" }, "no_token"},
		"garbage":                          {func(*rig) string { return "garbage" }, "malformed"},
		"longer than 8 KiB":                {func(*rig) string { return strings.Repeat("a", 9<<10) }, "malformed"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, "")
			r.delegated()
			a := r.callout(tc.token(r))
			if got := r.series("lanyard_exchange_callouts_total", tc.want); got != 1 {
				t.Errorf("outcome %q is counted %v times; got %d %s", tc.want, got, a.status, a.text)
			}
			challenge := a.header.Get("WWW-Authenticate")
			switch {
			case tc.want == "allowed" && (a.status != 200 || challenge != ""):
				t.Errorf("got %d %s", a.status, a.text)
			case tc.want != "allowed" && (a.status != 401 || !strings.HasPrefix(challenge, "Bearer")):
				t.Errorf("got %d with %q", a.status, challenge)
			}
			if tc.want != "allowed" && a.header.Get("X-NMP-Principal-Id") != "" {
				t.Error("a refusal names a principal")
			}
		})
	}
}

func TestTheCalloutFollowsTheRow(t *testing.T) {
	t.Parallel()
	for _, check := range []bool{true, false} {
		t.Run(fmt.Sprint("checkRow ", check), func(t *testing.T) {
			t.Parallel()
			r := newRig(t, fmt.Sprintf("authenticate: {checkRow: %v}", check))
			r.delegated()
			token := r.granted().token()
			_, err := r.store.Revoke(t.Context(), delegation.Revocation{Row: row(), Reason: delegation.PodEnded, At: time.Now()})
			must(t, err)
			want := map[bool]int{true: 401, false: 200}[check]
			if a := r.callout(token); a.status != want {
				t.Errorf("got %d %s", a.status, a.text)
			}
		})
	}
}

// TestTrustedHeaders: all of them are set, whatever the client sent, under every method and path.
func TestTrustedHeaders(t *testing.T) {
	t.Parallel()
	r := newRig(t, "authenticate: {headerPrefix: X-NHX-}\nclaims: {email: true, groups: true, subjects: [{subject: "+submitter+", email: a@b.c, groups: [ml ops, x]}]}")
	r.delegated()
	token := r.post(form(good(), "scope", "openid")).token()
	want := map[string]string{
		"Principal-Id": username, "Principal-Email": "", "Principal-Groups": "", "Principal-On-Behalf-Of": submitter,
		"Principal-On-Behalf-Of-Email": "a@b.c", "Principal-On-Behalf-Of-Groups": "ml ops,x", "Scopes": "openid",
	}
	for _, method := range []string{"GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "PROPFIND"} {
		for _, path := range []string{"", "/", "/v1/chat", "/a//b", "/../token", "/%2e%2e/x", "?access_token=x"} {
			req := r.request(method, wire.PathAuthenticate+path, nil)
			req.Header.Set("Authorization", "bearer "+token)
			for _, name := range []string{"X-NHX-Principal-Id", "X-NHX-Principal-Evil", "X-NMP-Principal-Id", "X-NHX-Authorized", "X-NHX-Internal", "X-Original-Authorization"} {
				req.Header.Set(name, "mallory")
			}
			req.AddCookie(&http.Cookie{Name: "token", Value: "x"})
			a := r.do(req)
			got := map[string]string{}
			for name, values := range a.header {
				if suffix, ours := strings.CutPrefix(name, textproto.CanonicalMIMEHeaderKey("X-NHX-")); ours {
					got[suffix] = strings.Join(values, "|")
				}
				if strings.Contains(strings.Join(values, ""), "mallory") {
					t.Errorf("%s %s: the client's own %s comes back", method, path, name)
				}
			}
			if diff := cmp.Diff(want, got); a.status != 200 || diff != "" {
				t.Errorf("%s %s: %d (-want +got):\n%s", method, path, a.status, diff)
			}
		}
	}
}

func TestOneAuthorizationHeaderCounts(t *testing.T) {
	t.Parallel()
	r := newRig(t, "")
	r.delegated()
	token := r.granted().token()
	for name, values := range map[string][]string{
		"none": nil, "two": {"Bearer " + token, "Bearer " + token}, "basic": {"Basic " + token}, "no scheme": {token}, "two in one": {"Bearer " + token + ", Bearer x"},
		"two spaces": {"Bearer  " + token}, "a tab": {"Bearer\t" + token}, "empty": {"Bearer "},
	} {
		req := r.request(http.MethodGet, wire.PathAuthenticate+"?access_token="+token, nil)
		req.Header["Authorization"] = values
		req.Header.Set("X-Original-Authorization", "Bearer "+token)
		req.Header.Set("X-Forwarded-Authorization", "Bearer "+token)
		req.AddCookie(&http.Cookie{Name: "access_token", Value: token})
		if a := r.do(req); a.status != http.StatusUnauthorized {
			t.Errorf("%s: %d", name, a.status)
		}
	}
}
