package exchange_test

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	jose "github.com/go-jose/go-jose/v4"
	"github.com/google/go-cmp/cmp"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/internal/mint"
)

// signed signs any payload with the rig's own key, as nobody but a broken exchange could.
func (r *rig) signed(payload string) string {
	r.t.Helper()
	state, err := r.shelf.Read(r.t.Context())
	must(r.t, err)
	for id, key := range state.Keys {
		text, err := key.PEM()
		must(r.t, err)
		block, _ := pem.Decode(text)
		private, err := x509.ParsePKCS8PrivateKey(block.Bytes)
		must(r.t, err)
		signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: private}, (&jose.SignerOptions{}).WithType("at+jwt").WithHeader("kid", id))
		must(r.t, err)
		object, err := signer.Sign([]byte(payload))
		must(r.t, err)
		token, err := object.CompactSerialize()
		must(r.t, err)
		return token
	}
	r.t.Fatal("there is no key")
	return ""
}

// payload are good claims as text, with one place to change: after %s there may be more members.
func payload(exp, more string) string {
	now := time.Now().Unix()
	return fmt.Sprintf(`{"iss":%q,"sub":%q,"act":{"sub":%q},"aud":%q,"client_id":%q,"iat":%d,"nbf":%d,"exp":%s,"jti":%q%s}`,
		issuer, submitter, username, issuedA, subjectA, now, now, exp, mint.NewID(row()), more)
}

func soon() string { return fmt.Sprint(time.Now().Unix() + 300) }

// passes says what the callout makes of a token.
func (r *rig) passes(token string, want string) {
	r.t.Helper()
	a := r.callout(token)
	if got := r.series("lanyard_exchange_callouts_total", want); got != 1 {
		r.t.Errorf("outcome %q is counted %v times; got %d %s", want, got, a.status, a.text)
	}
}

// TestWhatIsIssued is checklist H, line by line.
func TestWhatIsIssued(t *testing.T) {
	t.Parallel()
	each(t, map[string]func(t *testing.T, r *rig){
		"H1: header": func(t *testing.T, r *rig) {
			if got := slices.Sorted(maps.Keys(part(t, r.granted().token(), 0))); !slices.Equal(got, []string{"alg", "kid", "typ"}) {
				t.Errorf("members %v", got)
			}
		},
		"H2: claims": func(t *testing.T, r *rig) {
			c := claimsOf(t, r.post(form(good(), "scope", "openid")).token())
			for _, claim := range []string{"iss", "sub", "aud", "exp", "iat", "nbf", "jti", "client_id", "act", "scope"} {
				if c[claim] == nil || c[claim] == "" {
					t.Errorf("%s is %v", claim, c[claim])
				}
			}
		},
		"H3: sub": func(t *testing.T, r *rig) {
			c := claimsOf(t, r.granted().token())
			if c["sub"] != submitter || c["sub"] == c["act"].(map[string]any)["sub"] {
				t.Errorf("claims %v", c)
			}
		},
		"H4: act": func(t *testing.T, r *rig) {
			if diff := cmp.Diff(map[string]any{"sub": username}, claimsOf(t, r.granted().token())["act"]); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		},
		"H5: depth": func(t *testing.T, r *rig) {
			// A subject token that carries an actor, of whatever form, adds none.
			for _, act := range []string{`"act":"x"`, `"act":[]`, `"act":{"sub":"evil","act":{"sub":"worse"}}`} {
				a := r.post(form(claiming(act)))
				if diff := cmp.Diff(map[string]any{"sub": username}, claimsOf(t, a.token())["act"]); diff != "" {
					t.Errorf("%s (-want +got):\n%s", act, diff)
				}
			}
		},
	})
}

// TestWhatIsIssuedForHowLong is the rest of checklist H.
func TestWhatIsIssuedForHowLong(t *testing.T) {
	t.Parallel()
	each(t, map[string]func(t *testing.T, r *rig){
		"H6: who acts": func(t *testing.T, r *rig) {
			a := r.callout(r.signed(strings.Replace(payload(soon(), ""), `"act":{"sub":"`+username+`"}`, `"act":{"sub":"`+username+`","act":{"sub":"evil"}}`, 1)))
			if a.status != 200 || a.header.Get("X-NMP-Principal-Id") != username || a.header.Get("X-NMP-Principal-On-Behalf-Of") != submitter {
				t.Errorf("%d with headers %v, want 200 for %s on behalf of %s", a.status, a.header, username, submitter)
			}
			if strings.Contains(fmt.Sprint(a.header), "evil") {
				t.Error("an inner actor is somebody")
			}
		},
		"H7: may_act": func(t *testing.T, r *rig) {
			c := claimsOf(t, r.post(form(claiming(`"may_act":{"sub":"evil"}`))).token())
			if fmt.Sprint(c["act"]) != "map[sub:"+username+"]" || c["may_act"] != nil {
				t.Errorf("claims %v", c)
			}
		},
		"H8: lifetime": func(t *testing.T, r *rig) {
			short := time.Now().Add(90 * time.Second)
			c := claimsOf(t, r.post(form(subject("short", subjectA, short))).token())
			if exp := int64(c["exp"].(float64)); exp > short.Unix() {
				t.Errorf("it outlives its subject token by %d s", exp-short.Unix())
			}
			if a := r.post(form(subject("shorter", subjectA, time.Now().Add(20*time.Second)))); a.status != 503 {
				t.Errorf("with 20 s left: %d", a.status) // the spec's own: under 30 s
			}
		},
		"H9: jti": func(t *testing.T, r *rig) {
			seen := map[string]bool{}
			for range 20 {
				seen[fmt.Sprint(claimsOf(t, r.granted().token())["jti"])] = true
			}
			if len(seen) != 20 {
				t.Errorf("%d ids in 20 tokens", len(seen))
			}
		},
		"H10: kid": func(t *testing.T, r *rig) {
			key := r.get(wire.PathJWKS).body["keys"].([]any)[0].(map[string]any)
			sum := sha256.Sum256(fmt.Appendf(nil, `{"crv":%q,"kty":%q,"x":%q,"y":%q}`, key["crv"], key["kty"], key["x"], key["y"]))
			if want := base64.RawURLEncoding.EncodeToString(sum[:]); key["kid"] != want || part(t, r.granted().token(), 0)["kid"] != want {
				t.Errorf("kid %v, want the thumbprint %s", key["kid"], want)
			}
		},
		"H11: signature": func(t *testing.T, r *rig) {
			raw, err := base64.RawURLEncoding.DecodeString(strings.Split(r.granted().token(), ".")[2])
			if err != nil || len(raw) != 64 {
				t.Errorf("%d bytes, %v", len(raw), err)
			}
		},
		"H12: size": func(t *testing.T, r *rig) {
			if n := len(r.post(form(good(), "scope", strings.Repeat("openid email groups ", 100))).token()); n > 8<<10 || n == 0 {
				t.Errorf("%d bytes", n)
			}
		},
	})
}

// claiming is a subject token with a claim more.
func claiming(claim string) string {
	parts := strings.Split(subject(claim, subjectA, time.Now().Add(time.Hour)), ".")
	raw, _ := base64.RawURLEncoding.DecodeString(parts[1])
	raw = append(append(raw[:len(raw)-1], ','), claim+"}"...)
	if !json.Valid(raw) {
		panic("no JSON: " + string(raw))
	}
	return parts[0] + "." + base64.RawURLEncoding.EncodeToString(raw) + "." + parts[2]
}

// TestClaimsThatAreSignedAndWrong is what of checklist I needs the exchange's own key.
func TestClaimsThatAreSignedAndWrong(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ payload, want string }{
		"a good one":                          {payload(soon(), ""), "allowed"},
		"I4: sub twice":                       {payload(soon(), `,"sub":"root"`), "claims"},
		"I4: Sub beside sub is nobody":        {payload(soon(), `,"Sub":"root"`), "allowed"},
		"I4: aud twice":                       {payload(soon(), `,"aud":"other"`), "claims"},
		"I5: a list with ours second":         {strings.Replace(payload(soon(), ""), `"aud":"`+issuedA+`"`, `"aud":["other","`+issuedA+`"]`, 1), "allowed"},
		"I5: an empty list":                   {strings.Replace(payload(soon(), ""), `"aud":"`+issuedA+`"`, `"aud":[]`, 1), "claims"},
		"I5: a prefix":                        {strings.Replace(payload(soon(), ""), `"aud":"`+issuedA+`"`, `"aud":"nemo"`, 1), "audience"},
		"I8: exp with a fraction":             {payload(soon()+".5", ""), "allowed"},
		"I8: exp as a text":                   {payload(`"`+soon()+`"`, ""), "claims"},
		"I8: exp beyond every number":         {payload("1e400", ""), "claims"},
		"I8: exp below zero":                  {payload("-1", ""), "claims"},
		"I8: no exp":                          {strings.Replace(payload("0", ""), `"exp":0,`, "", 1), "claims"},
		"K5: a type of another kind of token": {"", "type"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, "")
			r.delegated()
			token := good() // a token of the API server's
			if tc.payload != "" {
				token = r.signed(tc.payload)
			}
			r.passes(token, tc.want)
		})
	}
}

// TestTheDesign is checklist K: RFC 9700 and RFC 8725 on what kinds of tokens there are and what they may do.
func TestTheDesign(t *testing.T) {
	t.Parallel()
	each(t, map[string]func(t *testing.T, r *rig){
		"K1: least privilege": func(t *testing.T, r *rig) {
			a := r.post(form(good(), "scope", "openid admin *"))
			c := claimsOf(t, a.token())
			if c["aud"] != issuedA || c["scope"] != "openid" || c["groups"] != nil || c["email"] != nil || a.body["token_type"] != "Bearer" {
				t.Errorf("claims %v", c)
			}
			if a := r.post(form(good(), "audience", "https://other")); a.code() != "invalid_target" {
				t.Errorf("another audience: %d %s", a.status, a.text)
			}
		},
		"K2: kinds of token exclude each other": func(t *testing.T, r *rig) {
			access, before := r.granted().token(), r.api.calls.Load()
			for kind, reason := range map[string]string{wire.TokenTypeJWT: "review_rejected", wire.TokenTypeDockerProof: "proof_malformed"} {
				if a := r.post(form(access, "subject_token_type", kind)); a.code() != "invalid_request" || r.count(reason) != 1 { // nothing for an issued token
					t.Errorf("as %s: %d %s", kind, a.status, a.text)
				}
			}
			if r.api.calls.Load() != before {
				t.Error("the API server was shown an access token")
			}
			r.passes(good(), "type") // a subject token passes no gateway
		},
		"K3: claims route nothing": func(t *testing.T, r *rig) {
			for _, claim := range []string{`"iss":"https://evil.example"`, `"jku":"https://evil.example/keys"`, `"x5u":"https://evil.example"`} {
				before := r.api.calls.Load()
				if a := r.post(form(claiming(claim))); a.status != 200 || r.api.calls.Load() != before+1 {
					t.Errorf("%s: %d after %d reviews by the one reviewer", claim, a.status, r.api.calls.Load()-before)
				}
				if c := claimsOf(t, r.post(form(claiming(claim))).token()); c["iss"] != issuer {
					t.Errorf("iss %v", c["iss"])
				}
			}
		},
		"K4: one algorithm for each key": func(t *testing.T, r *rig) {
			for _, k := range r.get(wire.PathJWKS).body["keys"].([]any) {
				if key := k.(map[string]any); key["alg"] != "ES256" || key["crv"] != "P-256" || key["use"] != "sig" || key["kty"] != "EC" {
					t.Errorf("%v", key)
				}
			}
			parts := strings.Split(r.granted().token(), ".")
			header := base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, `{"alg":"HS256","kid":%q,"typ":"at+jwt"}`, part(t, strings.Join(parts, "."), 0)["kid"]))
			r.passes(header+"."+parts[1]+"."+parts[2], "algorithm")
		},
		"K5: explicit types": func(t *testing.T, r *rig) {
			if typ := part(t, r.granted().token(), 0)["typ"]; typ != "at+jwt" {
				t.Errorf("typ %v", typ)
			}
		},
	})
}
