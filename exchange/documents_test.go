package exchange_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/exchange/grant"
	"github.com/lanyard-k8s/lanyard/exchange/keys"
)

func TestWireWordsAreGrants(t *testing.T) {
	t.Parallel()
	for _, pair := range [][2]string{
		{wire.GrantTypeTokenExchange, grant.GrantType}, {wire.TokenTypeAccess, grant.TokenTypeAccess}, {wire.TokenTypeJWT, grant.TokenTypeJWT},
		{wire.TokenTypeDockerProof, grant.TokenTypeDocker},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%q and %q", pair[0], pair[1])
		}
	}
}

// TestJ1J2J3JWKS is J1 to J3.
func TestJ1J2J3JWKS(t *testing.T) {
	t.Parallel()
	r := newRig(t, "")
	a := r.get(wire.PathJWKS)
	var set struct{ Keys []map[string]any }
	must(t, json.Unmarshal([]byte(a.text), &set))
	if len(set.Keys) != 1 {
		t.Fatalf("%d keys", len(set.Keys))
	}
	for _, k := range set.Keys {
		for _, private := range []string{"d", "p", "q", "dp", "dq", "qi", "k"} {
			if _, shown := k[private]; shown {
				t.Errorf("J1: %q is shown", private)
			}
		}
		if k["kid"] == "" || k["kty"] != "EC" || k["use"] != "sig" || k["alg"] != "ES256" {
			t.Errorf("J2: %v", k)
		}
	}
	if got := a.header.Get("Cache-Control"); got != "public, max-age=300" {
		t.Errorf("J3: %q", got)
	}
	for tag, want := range map[string]int{
		a.header.Get("ETag"): 304, "W/" + a.header.Get("ETag"): 304, `"x", ` + a.header.Get("ETag"): 304, "*": 304, `"x"`: 200, "": 200,
	} {
		req := r.request(http.MethodGet, wire.PathJWKS, nil)
		req.Header.Set("If-None-Match", tag)
		if got := r.do(req); got.status != want || (want == 304) != (got.text == "") {
			t.Errorf("J3: If-None-Match %s: %d", tag, got.status)
		}
	}
	if got := r.do(r.request(http.MethodPost, wire.PathJWKS, nil)); got.status != 405 || got.header.Get("Allow") != "GET, HEAD" {
		t.Errorf("POST: %d", got.status)
	}
}

// TestJ8J9J10Metadata is J8 to J10.
func TestJ8J9J10Metadata(t *testing.T) {
	t.Parallel()
	want := map[string]any{
		"grant_types_supported": []any{wire.GrantTypeTokenExchange}, "token_endpoint_auth_methods_supported": []any{"none"},
		"response_types_supported": []any{}, "scopes_supported": []any{"openid", "email", "groups"},
		"subject_token_types_supported": []any{wire.TokenTypeJWT, wire.TokenTypeDockerProof}, "requested_token_types_supported": []any{wire.TokenTypeAccess},
		"access_token_signing_alg_values_supported": []any{"ES256"},
		"token_endpoint": "https://exchange.example:8443/apis/auth/token", "jwks_uri": "https://exchange.example:8443/apis/auth/jwks",
	}
	tests := map[string]struct {
		issuer string
		paths  []string
		none   []string
	}{
		"without a path": {"https://exchange.example:8443", []string{"/.well-known/oauth-authorization-server"}, []string{"/.well-known/oauth-authorization-server/", "/.well-known/openid-configuration"}},
		"with a path": {
			"https://exchange.example:8443/apis/auth",
			[]string{"/.well-known/oauth-authorization-server/apis/auth", "/apis/auth/.well-known/oauth-authorization-server", "/.well-known/oauth-authorization-server"},
			[]string{"/.well-known/oauth-authorization-server/other"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, "issuer: "+tc.issuer)
			r.delegated()
			want := maps.Clone(want)
			want["issuer"] = tc.issuer // J9
			for _, path := range tc.paths {
				req := r.request(http.MethodGet, path, nil)
				req.Host = "evil.example"
				req.Header.Set("X-Forwarded-Host", "evil.example")
				got := r.do(req)
				if diff := cmp.Diff(want, got.body); diff != "" {
					t.Errorf("%s (-want +got):\n%s", path, diff)
				}
			}
			for _, path := range tc.none {
				if got := r.get(path); got.status != 404 {
					t.Errorf("%s: %d", path, got.status)
				}
			}
			if iss := claimsOf(t, r.granted().token())["iss"]; iss != tc.issuer {
				t.Errorf("J9: iss %v", iss)
			}
		})
	}
}

func TestDiscovery(t *testing.T) {
	t.Parallel()
	r := newRig(t, "login: {issuer: 'https://login.example', clientID: web}\nbaseURL: https://api.example")
	want := map[string]any{"auth_enabled": true, "oidc": map[string]any{
		"issuer": "https://login.example", "authorization_endpoint": nil, "token_endpoint": "https://api.example/apis/auth/token",
		"device_authorization_endpoint": nil, "userinfo_endpoint": nil, "jwks_uri": "https://api.example/apis/auth/jwks", "client_id": "web", "audience": nil,
		"default_scopes": "openid email groups", "workload_token_exchange_enabled": true, "workload_client_id": "nemo-platform",
		"workload_token_endpoint": "https://api.example/apis/auth/token", "workload_audience": "nemo-platform-api", "workload_scope": "openid email groups",
	}}
	if diff := cmp.Diff(want, r.get(wire.PathDiscovery).body); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestPathsAreExact(t *testing.T) {
	t.Parallel()
	r := newRig(t, "")
	for _, path := range []string{"/", "/apis/auth/token/", "//apis/auth/token", "/apis/auth/./token", "/apis/auth/tokens", "/apis/auth/authenticatex", "/admin/records/submission"} {
		if got := r.get(path); got.status != 404 {
			t.Errorf("%s: %d %s", path, got.status, got.header.Get("Location"))
		}
	}
}

// TestJ4RotationUnderLoad is J4: a verifier that keeps the set for max-age fails no verification while keys change places again and
// again. Time is the test's.
func TestJ4RotationUnderLoad(t *testing.T) {
	t.Parallel()
	r := newRig(t, "keys: {directory: /keys, maxAgeSeconds: 300, retentionSeconds: 300, rotateEverySeconds: 1200}")
	r.delegated(nothingExpires)
	type held struct {
		token  string
		expiry time.Time
	}
	var tokens []held
	cached, fetched := map[string]bool{}, time.Time{}
	seen := map[string]bool{}
	for at := time.Duration(0); at < 3*time.Hour; at += 20 * time.Second {
		r.skew.Store(int64(at))
		must(t, r.keeper.Refresh(t.Context()))
		a := r.post(form(subject("long", subjectA, time.Now().Add(24*time.Hour))))
		if a.status != 200 {
			t.Fatalf("at %v: %d %s", at, a.status, a.text)
		}
		tokens = append(tokens, held{a.token(), r.now().Add(300 * time.Second)})
		if r.now().Sub(fetched) >= 300*time.Second {
			cached, fetched = map[string]bool{}, r.now()
			for _, k := range r.get(wire.PathJWKS).body["keys"].([]any) {
				cached[k.(map[string]any)["kid"].(string)] = true
			}
		}
		for _, h := range tokens {
			kid := part(t, h.token, 0)["kid"].(string)
			seen[kid] = true
			if h.expiry.After(r.now()) && !cached[kid] {
				t.Fatalf("at %v: a live token's key %s is not in the set fetched at %v", at, kid, fetched)
			}
		}
		for len(tokens) > 0 && !tokens[0].expiry.After(r.now()) {
			tokens = tokens[1:]
		}
	}
	if len(seen) < 5 {
		t.Errorf("%d keys have signed in three hours", len(seen))
	}
}

// TestJ11RevokedKeys is J11: a key that is revoked is gone from the set at once, and another signs.
func TestJ11RevokedKeys(t *testing.T) {
	t.Parallel()
	r := newRig(t, "")
	r.delegated()
	old := r.granted().token()
	kid := part(t, old, 0)["kid"].(string)
	if _, _, err := keys.Apply(t.Context(), r.shelf, r.config.Keys.Alg, r.config.Keys.Timing, keys.Change{Revoke: kid}, time.Now()); err == nil {
		t.Error("the signing key alone can be revoked")
	}
	_, added, err := keys.Apply(t.Context(), r.shelf, r.config.Keys.Alg, r.config.Keys.Timing, keys.Change{Now: true, Revoke: kid}, time.Now())
	must(t, err)
	must(t, r.keeper.Refresh(t.Context()))
	if text := r.get(wire.PathJWKS).text; strings.Contains(text, kid) || !strings.Contains(text, added) {
		t.Errorf("the set is %s", text)
	}
	if a := r.callout(old); a.status != 401 {
		t.Errorf("the old token: %d", a.status)
	}
	if a := r.callout(r.granted().token()); a.status != 200 {
		t.Errorf("a new token: %d", a.status)
	}
}
