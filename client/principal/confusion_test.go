package principal_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/google/go-cmp/cmp"

	"github.com/lanyard-k8s/lanyard/client/principal"
)

func TestGoodTokens(t *testing.T) {
	t.Parallel()
	for _, alg := range []jose.SignatureAlgorithm{jose.ES256, jose.RS256, jose.EdDSA} {
		k := newSigner(t, "k", alg)
		g := publishes(t, newSigner(t, "other", jose.ES256), k).guard(t)
		who, err := g.Verify(t.Context(), k.token(t, map[string]string{"email": `"a@x.example"`, "groups": `"ml team,ops"`, "scope": `"openid email"`}))
		want := principal.Principal{ID: runner, OnBehalfOf: "alice", Email: "a@x.example", Groups: []string{"ml team", "ops"}, Scopes: []string{"openid", "email"}}
		if diff := cmp.Diff(want, who); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", alg, err, diff)
		}
		if who.Person() != "alice" {
			t.Errorf("%s: the person is %q", alg, who.Person())
		}
		who, err = g.Verify(t.Context(), k.token(t, map[string]string{"act": ""}))
		if err != nil || who.ID != "alice" || who.OnBehalfOf != "" || who.Person() != "alice" {
			t.Errorf("%s: without an actor: %+v, %v", alg, who, err)
		}
	}
}

func TestAlgorithmConfusion(t *testing.T) {
	t.Parallel()
	k, r := newSigner(t, "k", jose.ES256), newSigner(t, "r", jose.RS256)
	p := publishes(t, k, r)
	g, good := p.guard(t), claims(nil)
	enc := base64.RawURLEncoding
	input := func(header string) string {
		return enc.EncodeToString([]byte(header)) + "." + enc.EncodeToString([]byte(good))
	}
	mac := func(secret []byte) string {
		in := input(`{"alg":"HS256","kid":"k","typ":"at+jwt"}`)
		m := hmac.New(sha256.New, secret)
		m.Write([]byte(in))
		return in + "." + enc.EncodeToString(m.Sum(nil))
	}
	der, err := r.jwk().MarshalJSON()
	must(t, err)
	for name, tc := range map[string]struct {
		token string
		want  principal.Reason
	}{
		"alg none":                       {input(`{"alg":"none","kid":"k","typ":"at+jwt"}`) + ".", principal.BadAlgorithm},
		"alg None":                       {input(`{"alg":"None","kid":"k","typ":"at+jwt"}`) + ".", principal.BadAlgorithm},
		"no alg":                         {input(`{"kid":"k","typ":"at+jwt"}`) + ".", principal.BadAlgorithm},
		"HS256 with the key set":         {mac([]byte(p.body)), principal.BadAlgorithm},
		"HS256 with the public key":      {mac(der), principal.BadAlgorithm},
		"RS256 under an EC key's id":     {r.sign(t, `{"alg":"RS256","kid":"k","typ":"at+jwt"}`, good), principal.BadAlgorithm},
		"ES256 under an RSA key's id":    {k.sign(t, `{"alg":"ES256","kid":"r","typ":"at+jwt"}`, good), principal.BadAlgorithm},
		"RSA's signature as ES256":       {r.sign(t, k.header(), good), principal.BadSignature},
		"PS256, which nobody signs with": {r.sign(t, `{"alg":"PS256","kid":"r","typ":"at+jwt"}`, good), principal.BadAlgorithm},
		"another key's signature":        {newSigner(t, "k", jose.ES256).sign(t, k.header(), good), principal.BadSignature},
		"no signature":                   {input(k.header()) + ".", principal.BadSignature},
		"a signature in DER":             {derSigned(t, k, good), principal.BadSignature},
		"as it should be":                {k.sign(t, k.header(), good), ""},
	} {
		refuse(t, g, name, tc.token, tc.want)
	}
}

// derSigned is ES256 as crypto libraries write it by themselves, which JOSE does not.
func derSigned(t *testing.T, s signer, payload string) string {
	t.Helper()
	enc := base64.RawURLEncoding
	input := enc.EncodeToString([]byte(s.header())) + "." + enc.EncodeToString([]byte(payload))
	digest := sha256.Sum256([]byte(input))
	sig, err := ecdsa.SignASN1(rand.Reader, s.key.(*ecdsa.PrivateKey), digest[:])
	must(t, err)
	return input + "." + enc.EncodeToString(sig)
}

func TestHeadersThatBringMore(t *testing.T) {
	t.Parallel()
	k, mallory := newSigner(t, "k", jose.ES256), newSigner(t, "k", jose.ES256)
	g, good := publishes(t, k).guard(t), claims(nil)
	jwk, err := mallory.jwk().MarshalJSON()
	must(t, err)
	plus := func(member string) string { return strings.TrimSuffix(k.header(), "}") + "," + member + "}" }
	for what, token := range map[string]string{
		"her own key": mallory.sign(t, plus(`"jwk":`+string(jwk)), good), "a key's address": mallory.sign(t, plus(`"jku":"https://mallory.example"`), good),
		"a certificate": mallory.sign(t, plus(`"x5c":["AAAA"]`), good), "crit": k.sign(t, plus(`"crit":["exp"],"exp":1`), good),
		"b64": k.sign(t, plus(`"crit":["b64"],"b64":false`), good), "alg twice": k.sign(t, plus(`"alg":"none"`), good), "no object": k.sign(t, `[]`, good),
	} {
		refuse(t, g, what, token, principal.BadHeader)
	}
	for _, kid := range []string{"../../etc/passwd", "", strings.Repeat("a", 129), "K", "k "} {
		refuse(t, g, "kid "+kid, k.sign(t, strings.Replace(k.header(), `"k"`, quote(kid), 1), good), principal.UnknownKey)
	}
	for typ, want := range map[string]principal.Reason{
		`"AT+JWT"`: "", `"application/at+jwt"`: "", `"JWT"`: principal.BadType, `""`: principal.BadType, `"id+jwt"`: principal.BadType, `null`: principal.BadType, `7`: principal.BadHeader,
	} {
		refuse(t, g, "typ "+typ, k.sign(t, strings.Replace(k.header(), `"at+jwt"`, typ, 1), good), want)
	}
}

func TestShapes(t *testing.T) {
	t.Parallel()
	k := newSigner(t, "k", jose.ES256)
	p := publishes(t, k)
	g, token := p.guard(t), k.token(t, nil)
	for what, bad := range map[string]string{
		"nothing": "", "two parts": "a.b", "five parts": "a.b.c.d.e", "100,000 dots": strings.Repeat(".", 100_000), "too long": token + strings.Repeat("A", 8<<10),
		"padding": strings.Replace(token, ".", "=.", 1), "a line break": token[:10] + "\n" + token[10:], "a zero byte": token + "\x00", "JSON": `{"payload":"..","signatures":[]}`,
	} {
		refuse(t, g, what, bad, principal.Malformed)
	}
	if n := p.count(); n != 0 {
		t.Errorf("the exchange was asked %d times about what is no token", n)
	}
}

// TestATokenHasOneSpelling: the last character of an ES256 signature holds two bits of it and four that mean nothing. Whatever these
// are, a decoder that is not strict reads the same signature; so with claims and header, where their length leaves bits to spare.
func TestATokenHasOneSpelling(t *testing.T) {
	t.Parallel()
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	k := newSigner(t, "k", jose.ES256)
	g := publishes(t, k).guard(t)
	for bytes := range 3 {
		good := k.token(t, map[string]string{"pad": quote(strings.Repeat("x", bytes))})
		parts := strings.Split(good, ".")
		for i, part := range parts {
			spare := []int{1, 0, 16, 4}[len(part)%4] // spellings of the last character
			last := strings.IndexByte(alphabet, part[len(part)-1])
			for n := 1; n < spare; n++ {
				other := slices.Clone(parts)
				other[i] = part[:len(part)-1] + alphabet[last+n:last+n+1]
				refuse(t, g, fmt.Sprintf("part %d with %d in its spare bits", i, n), strings.Join(other, "."), principal.Malformed)
			}
		}
		refuse(t, g, "as it is signed", good, "")
	}
}

func TestClaims(t *testing.T) {
	t.Parallel()
	k := newSigner(t, "k", jose.ES256)
	g := publishes(t, k).guard(t, func(o *principal.Options) { o.SystemSubjects = []string{"system:cron"} })
	at := func(offset time.Duration) string { return fmt.Sprint(time.Now().Add(offset).Unix()) }
	for name, tc := range map[string]struct {
		claim, value string
		want         principal.Reason
	}{
		"iss with a slash":             {"iss", quote(issuer + "/"), principal.BadIssuer},
		"iss in capitals":              {"iss", quote(strings.ToUpper(issuer)), principal.BadIssuer},
		"no iss":                       {"iss", "", principal.BadIssuer},
		"iss of Kubernetes":            {"iss", `"https://kubernetes.default.svc.cluster.local"`, principal.BadIssuer},
		"iss that is a list":           {"iss", `["` + issuer + `"]`, principal.BadClaims},
		"aud in a list":                {"aud", `["other","nemo-platform-api"]`, ""},
		"aud of the subject token":     {"aud", `"nemo-platform"`, principal.BadAudience},
		"aud that starts the same":     {"aud", `"nemo-platform-api.mallory.example"`, principal.BadAudience},
		"aud with a space":             {"aud", `"nemo-platform-api "`, principal.BadAudience},
		"aud in capitals":              {"aud", `"NEMO-PLATFORM-API"`, principal.BadAudience},
		"two audiences in one text":    {"aud", `"other nemo-platform-api"`, principal.BadAudience},
		"an empty list":                {"aud", `[]`, principal.BadClaims},
		"no aud":                       {"aud", ``, principal.BadClaims},
		"aud null":                     {"aud", `null`, principal.BadClaims},
		"aud with a number":            {"aud", `["nemo-platform-api",1]`, principal.BadClaims},
		"aud that is an object":        {"aud", `{"nemo-platform-api":1}`, principal.BadClaims},
		"expired 30 s ago":             {"exp", at(-30 * time.Second), ""},
		"expired 90 s ago":             {"exp", at(-90 * time.Second), principal.Expired},
		"exp in text":                  {"exp", quote(at(time.Hour)), principal.BadClaims},
		"exp beyond all bounds":        {"exp", "1e400", principal.BadClaims},
		"exp negative":                 {"exp", "-1", principal.BadClaims},
		"exp with a fraction":          {"exp", at(time.Minute) + ".5", ""},
		"no exp":                       {"exp", "", principal.BadClaims},
		"iat 30 s ahead":               {"iat", at(30 * time.Second), ""},
		"iat 90 s ahead":               {"iat", at(90 * time.Second), principal.NotYet},
		"nbf 90 s ahead":               {"nbf", at(90 * time.Second), principal.NotYet},
		"no nbf":                       {"nbf", "", ""},
		"no jti":                       {"jti", "", principal.BadClaims},
		"no client id, as K8s'":        {"client_id", "", principal.BadClaims},
		"no sub":                       {"sub", "", principal.BadClaims},
		"sub null":                     {"sub", "null", principal.BadClaims},
		"sub that is an object":        {"sub", `{"sub":"alice"}`, principal.BadClaims},
		"a service's name":             {"sub", `"service:billing"`, principal.BadSubject},
		"it in capitals":               {"sub", `"SERVICE:billing"`, principal.BadSubject},
		"a system name":                {"sub", `"system:masters"`, principal.BadSubject},
		"a system name that is listed": {"sub", `"system:cron"`, ""},
		"it in capitals, not listed":   {"sub", `"System:cron"`, principal.BadSubject},
		"a line break in sub":          {"sub", `"alice\r\nX-NMP-Internal: 1"`, principal.BadSubject},
		"a letter that looks alike":    {"sub", `"аlice"`, principal.BadSubject},
		"a space in sub":               {"sub", `"alice bob"`, principal.BadSubject},
		"a sub too long":               {"sub", quote(strings.Repeat("a", 513)), principal.BadSubject},
		"act that is text":             {"act", `"runner"`, principal.BadClaims},
		"act that is a list":           {"act", `[]`, principal.BadClaims},
		"act that is empty":            {"act", `{}`, principal.BadClaims},
		"act null is no act":           {"act", `null`, ""},
		"act with a history":           {"act", `{"sub":"runner","act":{"sub":"root"}}`, ""},
		"act with a line break":        {"act", `{"sub":"a\nb"}`, principal.BadSubject},
		"groups with a line break":     {"groups", `"a\nb"`, principal.BadSubject},
		"groups that are a list":       {"groups", `["a"]`, principal.BadClaims},
	} {
		refuse(t, g, name, k.token(t, map[string]string{tc.claim: tc.value}), tc.want)
	}
}

func TestDoubledClaims(t *testing.T) {
	t.Parallel()
	k := newSigner(t, "k", jose.ES256)
	g := publishes(t, k).guard(t)
	plus := func(members string) string { return strings.TrimSuffix(claims(nil), "}") + "," + members + "}" }
	for what, p := range map[string]string{
		"sub twice": plus(`"sub":"mallory"`), "an escaped sub": plus(`"s\u0075b":"mallory"`), "act's sub twice": claims(map[string]string{"act": `{"sub":"a","sub":"b"}`}),
		"not UTF-8": plus("\"x\":\"\xff\""), "two documents": claims(nil) + claims(nil),
	} {
		refuse(t, g, what, k.sign(t, k.header(), p), principal.BadClaims)
	}
	who, err := g.Verify(t.Context(), k.sign(t, k.header(), plus(`"Sub":"mallory","ACT":{"sub":"mallory"},"Exp":1`)))
	if err != nil || who.OnBehalfOf != "alice" || who.ID != runner {
		t.Errorf("claims in other letters: %+v, %v; want them ignored", who, err)
	}
}

func TestKeysThatAreNoGood(t *testing.T) {
	t.Parallel()
	k := newSigner(t, "k", jose.ES256)
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	must(t, err)
	set := func(keys ...jose.JSONWebKey) string {
		b, err := json.Marshal(jose.JSONWebKeySet{Keys: keys})
		must(t, err)
		return string(b)
	}
	change := func(f func(*jose.JSONWebKey)) jose.JSONWebKey { j := k.jwk(); f(&j); return j }
	other := newSigner(t, "other", jose.ES256).jwk()
	for name, tc := range map[string]struct {
		body string
		want principal.Reason
	}{
		"as it should be, among others":   {set(other, k.jwk()), ""},
		"a symmetric one beside it":       {strings.Replace(set(k.jwk()), `[`, `[{"kty":"oct","k":"AAAA","kid":"s","alg":"HS256","use":"sig"},`, 1), ""},
		"a kind that nobody knows beside": {strings.Replace(set(k.jwk()), `[`, `[{"kty":"PQ","kid":"s"},`, 1), ""},
		"for encryption":                  {set(other, change(func(j *jose.JSONWebKey) { j.Use = "enc" })), principal.UnknownKey},
		"without use":                     {set(other, change(func(j *jose.JSONWebKey) { j.Use = "" })), principal.UnknownKey},
		"without alg":                     {set(other, change(func(j *jose.JSONWebKey) { j.Algorithm = "" })), principal.UnknownKey},
		"alg of another kind":             {set(other, change(func(j *jose.JSONWebKey) { j.Algorithm = "RS256" })), principal.UnknownKey},
		"another curve":                   {set(other, jose.JSONWebKey{Key: p384.Public(), KeyID: "k", Algorithm: "ES384", Use: "sig"}), principal.UnknownKey},
		"a private one":                   {set(other, jose.JSONWebKey{Key: k.key, KeyID: "k", Algorithm: "ES256", Use: "sig"}), principal.UnknownKey},
		"two of one id":                   {set(k.jwk(), newSigner(t, "k", jose.ES256).jwk()), principal.Unavailable},
		"none":                            {set(), principal.Unavailable},
		"no JSON":                         {"<html>", principal.Unavailable},
		"too much":                        {strings.Repeat(" ", 256<<10) + set(k.jwk()), principal.Unavailable},
	} {
		p := publishes(t)
		p.body = tc.body
		refuse(t, p.guard(t), name, k.token(t, nil), tc.want)
	}
}

func TestReasonsAreListedOnce(t *testing.T) {
	t.Parallel()
	all := principal.Reasons()
	if slices.Sort(all); len(slices.Compact(all)) != 14 {
		t.Errorf("reasons %v", all)
	}
}
