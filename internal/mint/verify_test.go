package mint_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/lanyard-k8s/lanyard/internal/mint"
)

func header(k mint.Key) string {
	return fmt.Sprintf(`{"alg":%q,"kid":%q,"typ":"at+jwt"}`, k.Alg(), k.ID())
}

// payload is a good token's, with members changed (raw JSON) or, where the value is "", left out.
func payload(t testing.TB, changes map[string]string) string {
	t.Helper()
	b, err := json.Marshal(claims())
	if err != nil {
		t.Fatal(err)
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(b, &members); err != nil {
		t.Fatal(err)
	}
	for name, value := range changes {
		if value == "" {
			delete(members, name)
		} else {
			members[name] = json.RawMessage(value)
		}
	}
	text := make([]string, 0, len(members))
	for name, value := range members {
		text = append(text, fmt.Sprintf("%q:%s", name, value))
	}
	return "{" + strings.Join(text, ",") + "}"
}

// refuse holds a verifier to refusing a token for a reason; "" means that it accepts it.
func refuse(t *testing.T, v *mint.Verifier, what, token string, want mint.Fault) {
	t.Helper()
	got, err := v.Verify(token, now())
	if mint.FaultOf(err) != want || (err == nil) != (want == "") {
		t.Errorf("%s: got %+v, %v, want fault %q", what, got, err, want)
	}
	if err != nil && got != (mint.Token{}) {
		t.Errorf("%s: refused, and returned %+v", what, got)
	}
}

func TestI1Algorithms(t *testing.T) {
	t.Parallel()
	k, r := generate(t, mint.ES256), generate(t, mint.RS256)
	v, good := verifier(t, k, r), payload(t, nil)
	enc := base64.RawURLEncoding
	none := enc.EncodeToString(fmt.Appendf(nil, `{"alg":"none","kid":%q,"typ":"at+jwt"}`, k.ID())) + "." + enc.EncodeToString([]byte(good)) + "."
	refuse(t, v, "alg none", none, mint.BadAlg)
	set, err := mint.JWKS([]mint.PublicKey{k.Public()})
	if err != nil {
		t.Fatal(err)
	}
	input := enc.EncodeToString(fmt.Appendf(nil, `{"alg":"HS256","kid":%q,"typ":"at+jwt"}`, k.ID())) + "." + enc.EncodeToString([]byte(good))
	mac := hmac.New(sha256.New, set.Body)
	mac.Write([]byte(input))
	refuse(t, v, "HS256 with the public key", input+"."+enc.EncodeToString(mac.Sum(nil)), mint.BadAlg)
	refuse(t, v, "RS256 in the header of an EC key", forge(t, k, strings.Replace(header(k), "ES256", "RS256", 1), good), mint.BadAlg)
	refuse(t, v, "RS256's signature under an EC key's id", forge(t, r, header(k), good), mint.BadSignature)
	refuse(t, v, "lower case", forge(t, k, strings.Replace(header(k), "ES256", "es256", 1), good), mint.BadAlg)
	refuse(t, v, "another key's signature", forge(t, generate(t, mint.ES256), header(k), good), mint.BadSignature)
	refuse(t, v, "as it should be", forge(t, k, header(k), good), "")
	only, err := mint.NewVerifier(mint.Expectation{Issuer: issuer, Audience: audience, Algs: []mint.Alg{mint.EdDSA}}, knows(k, r))
	if err != nil {
		t.Fatal(err)
	}
	refuse(t, only, "an algorithm that is not allowed here", sign(t, k, claims()), mint.BadAlg)
}

func TestI2Types(t *testing.T) {
	t.Parallel()
	k := generate(t, mint.ES256)
	for typ, want := range map[string]mint.Fault{
		`"at+jwt"`: "", `"AT+JWT"`: "", `"application/at+jwt"`: "", `"Application/AT+jwt"`: "", `"JWT"`: mint.BadType, `""`: mint.BadType, `"at+jwt "`: mint.BadType,
		`"application/jwt"`: mint.BadType, `"logout+jwt"`: mint.BadType, `7`: mint.BadHeader, `null`: mint.BadType,
	} {
		refuse(t, verifier(t, k), "typ "+typ, forge(t, k, strings.Replace(header(k), `"at+jwt"`, typ, 1), payload(t, nil)), want)
	}
	refuse(t, verifier(t, k), "no typ", forge(t, k, strings.Replace(header(k), `,"typ":"at+jwt"`, "", 1), payload(t, nil)), mint.BadType)
}

func TestI3Headers(t *testing.T) {
	t.Parallel()
	k, mallory := generate(t, mint.ES256), generate(t, mint.ES256)
	v, good := verifier(t, k), payload(t, nil)
	jwk, err := json.Marshal(jose.JSONWebKey{Key: mallory.Public().Key, KeyID: k.ID()})
	if err != nil {
		t.Fatal(err)
	}
	plus := func(member string) string { return strings.TrimSuffix(header(k), "}") + "," + member + "}" }
	for what, token := range map[string]string{
		"her own key":            forge(t, mallory, plus(`"jwk":`+string(jwk)), good),
		"a key's address":        forge(t, k, plus(`"jku":"https://mallory.example/jwks"`), good),
		"a certificate":          forge(t, k, plus(`"x5c":["AAAA"]`), good),
		"a certificate's place":  forge(t, k, plus(`"x5u":"https://mallory.example/crt"`), good),
		"crit, of something new": forge(t, k, plus(`"crit":["exp"],"exp":1`), good),
		"crit b64":               forge(t, k, plus(`"crit":["b64"],"b64":true`), good),
		"cty":                    forge(t, k, plus(`"cty":"JWT"`), good),
		"alg twice":              forge(t, k, plus(`"alg":"none"`), good),
		"Alg beside alg":         forge(t, k, plus(`"Alg":"none"`), good),
		"no object":              forge(t, k, `[]`, good),
	} {
		refuse(t, v, what, token, mint.BadHeader)
	}
	for _, kid := range []string{"../../etc/passwd", "' OR 1=1 --", "", strings.Repeat("a", 129), k.ID() + "\\u0000", mallory.ID()} {
		refuse(t, v, "kid "+kid, forge(t, k, strings.Replace(header(k), k.ID(), kid, 1), good), mint.UnknownKey)
	}
}

func TestI4DoubledClaims(t *testing.T) {
	t.Parallel()
	k := generate(t, mint.ES256)
	v := verifier(t, k)
	plus := func(members string) string { return strings.TrimSuffix(payload(t, nil), "}") + "," + members + "}" }
	for what, p := range map[string]string{
		"sub twice": plus(`"sub":"mallory"`), "exp twice": plus(`"exp":9999999999`), "an escaped sub": plus(`"s\u0075b":"mallory"`),
		"act's sub twice": payload(t, map[string]string{"act": `{"sub":"a","sub":"b"}`}),
	} {
		refuse(t, v, what, forge(t, k, header(k), p), mint.BadClaims)
	}
	got, err := v.Verify(forge(t, k, header(k), plus(`"Sub":"mallory","ACT":{"sub":"mallory"},"Exp":1`)), now())
	if err != nil || got.Subject != "alice" || got.Actor != claims().Actor.Subject {
		t.Errorf("claims in other letters: got %+v, %v; want them ignored", got, err)
	}
}

func TestI5Audiences(t *testing.T) {
	t.Parallel()
	k := generate(t, mint.ES256)
	for aud, want := range map[string]mint.Fault{
		`"nemo-platform-api"`: "", `["nemo-platform-api"]`: "", `["other","nemo-platform-api"]`: "", `[]`: mint.BadClaims, `""`: mint.BadAudience, ``: mint.BadClaims,
		`"nemo-platform"`: mint.BadAudience, `"nemo-platform-api2"`: mint.BadAudience, `"nemo-platform-api "`: mint.BadAudience, `"NEMO-platform-api"`: mint.BadAudience,
		`["nemo-platform-api",1]`: mint.BadClaims, `{"nemo-platform-api":true}`: mint.BadClaims, `null`: mint.BadClaims, `1`: mint.BadClaims, `["a,nemo-platform-api"]`: mint.BadAudience,
	} {
		refuse(t, verifier(t, k), "aud "+aud, forge(t, k, header(k), payload(t, map[string]string{"aud": aud})), want)
	}
}

func TestI6Issuers(t *testing.T) {
	t.Parallel()
	k := generate(t, mint.ES256)
	for iss, want := range map[string]mint.Fault{
		`"` + issuer + `"`: "", `"` + issuer + `/"`: mint.BadIssuer, `"HTTPS://lanyard.example/apis/auth"`: mint.BadIssuer, `""`: mint.BadIssuer, ``: mint.BadIssuer,
		`["` + issuer + `"]`: mint.BadClaims,
	} {
		refuse(t, verifier(t, k), "iss "+iss, forge(t, k, header(k), payload(t, map[string]string{"iss": iss})), want)
	}
}

func TestI7Times(t *testing.T) {
	t.Parallel()
	k := generate(t, mint.ES256)
	at := func(offset time.Duration) string { return fmt.Sprint(now().Add(offset).Unix()) }
	for what, tc := range map[string]struct {
		claim, value string
		want         mint.Fault
	}{
		"expired 30 s ago":  {"exp", at(-30 * time.Second), ""},
		"expired 60 s ago":  {"exp", at(-60 * time.Second), mint.Expired},
		"expired 90 s ago":  {"exp", at(-90 * time.Second), mint.Expired},
		"from 30 s ahead":   {"iat", at(30 * time.Second), ""},
		"from 90 s ahead":   {"iat", at(90 * time.Second), mint.NotYet},
		"valid in 30 s":     {"nbf", at(30 * time.Second), ""},
		"valid in 90 s":     {"nbf", at(90 * time.Second), mint.NotYet},
		"without nbf":       {"nbf", "", ""},
		"without iat":       {"iat", "", mint.BadClaims},
		"without exp":       {"exp", "", mint.BadClaims},
		"exp null":          {"exp", "null", mint.BadClaims},
		"nbf of false kind": {"nbf", `"1"`, mint.BadClaims},
	} {
		refuse(t, verifier(t, k), what, forge(t, k, header(k), payload(t, map[string]string{tc.claim: tc.value})), tc.want)
	}
}

func TestI8Numbers(t *testing.T) {
	t.Parallel()
	k := generate(t, mint.ES256)
	soon := now().Unix() + 300
	for exp, want := range map[string]mint.Fault{
		fmt.Sprintf("%d.5", soon): "", fmt.Sprintf("%d.0e0", soon): "", "1.767323345e9": "",
		fmt.Sprintf("%q", fmt.Sprint(soon)): mint.BadClaims, "1e400": mint.BadClaims, "1e30": mint.BadClaims, "-1": mint.BadClaims, "-0": mint.Expired, "0": mint.Expired,
		"true": mint.BadClaims, "[1]": mint.BadClaims, "99999999999999999999": mint.BadClaims,
	} {
		refuse(t, verifier(t, k), "exp "+exp, forge(t, k, header(k), payload(t, map[string]string{"exp": exp})), want)
	}
}

// TestI9OtherTokens shows other JWTs, also such as our own key had signed.
func TestI9OtherTokens(t *testing.T) {
	t.Parallel()
	k := generate(t, mint.ES256)
	v := verifier(t, k)
	account := payload(t, map[string]string{"iss": `"https://kubernetes.default.svc"`, "aud": `["nemo-platform-api"]`, "kubernetes.io": `{"namespace":"runs"}`})
	untyped := fmt.Sprintf(`{"alg":"ES256","kid":%q}`, k.ID())
	refuse(t, v, "a service account's token", forge(t, k, untyped, account), mint.BadType)
	refuse(t, v, "a service account's token with our type", forge(t, k, header(k), account), mint.BadIssuer)
	refuse(t, v, "an id token", forge(t, k, strings.Replace(header(k), "at+jwt", "JWT", 1), payload(t, nil)), mint.BadType)
	for claim, want := range map[string]mint.Fault{"sub": mint.BadClaims, "jti": mint.BadClaims, "client_id": mint.BadClaims, "act": "", "scope": ""} {
		refuse(t, v, "without "+claim, forge(t, k, header(k), payload(t, map[string]string{claim: ""})), want)
	}
	for act, want := range map[string]mint.Fault{
		`"x"`: mint.BadClaims, `[]`: mint.BadClaims, `1`: mint.BadClaims, `{}`: mint.BadClaims, `{"sub":""}`: mint.BadClaims, `{"sub":1}`: mint.BadClaims, `null`: "",
		`{"sub":"a","act":{"sub":"b"}}`: "",
	} {
		refuse(t, v, "act "+act, forge(t, k, header(k), payload(t, map[string]string{"act": act})), want)
	}
}

func TestWhatIsNoToken(t *testing.T) {
	t.Parallel()
	k := generate(t, mint.ES256)
	v, good := verifier(t, k), sign(t, k, claims())
	for what, token := range map[string]string{
		"nothing": "", "dots": "..", "very many dots": strings.Repeat(".", 100_000), "two parts": good[:strings.LastIndex(good, ".")], "four parts": good + ".x",
		"a newline": good[:10] + "\n" + good[10:], "a newline at the end": good + "\n", "too long": good + strings.Repeat("A", 8<<10), "padding": strings.Replace(good, ".", "=.", 1),
		"JSON serialization":  `{"payload":"","signatures":[]}`,
		"an empty payload":    strings.Split(good, ".")[0] + ".." + strings.Split(good, ".")[2],
		"an empty signature":  good[:strings.LastIndex(good, ".")+1],
		"a changed signature": good[:len(good)-4] + "AAAA",
		"a changed payload":   strings.Replace(good, ".e", ".f", 1),
	} {
		if got, err := v.Verify(token, now()); mint.FaultOf(err) != mint.Malformed && mint.FaultOf(err) != mint.BadSignature && mint.FaultOf(err) != mint.BadHeader {
			t.Errorf("%s: got %+v, %v", what, got, err)
		}
	}
}

// TestATokenHasOneSpelling: the last character of an ES256 signature holds two bits of it and four that mean nothing. Whatever these
// are, a decoder that is not strict reads the same signature.
func TestATokenHasOneSpelling(t *testing.T) {
	t.Parallel()
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	k := generate(t, mint.ES256)
	v, good := verifier(t, k), sign(t, k, claims())
	last := strings.IndexByte(alphabet, good[len(good)-1])
	for spare := 1; spare < 16; spare++ {
		refuse(t, v, "spare bits", good[:len(good)-1]+alphabet[last+spare:last+spare+1], mint.Malformed)
	}
	refuse(t, v, "none", good, "")
}

func TestReservedSubjectsAreNotAccepted(t *testing.T) {
	t.Parallel()
	k := generate(t, mint.ES256)
	v, err := mint.NewVerifier(mint.Expectation{Issuer: issuer, Audience: audience, Reserved: func(s string) bool { return strings.HasPrefix(s, "service:") }}, knows(k))
	if err != nil {
		t.Fatal(err)
	}
	refuse(t, v, "reserved", forge(t, k, header(k), payload(t, map[string]string{"sub": `"service:x"`})), mint.BadSubject)
	refuse(t, v, "not reserved", sign(t, k, claims()), "")
}

func TestVerifiersNeedAll(t *testing.T) {
	t.Parallel()
	keys := knows()
	for what, want := range map[string]mint.Expectation{
		"no issuer": {Audience: audience}, "no audience": {Issuer: issuer}, "HS256": {Issuer: issuer, Audience: audience, Algs: []mint.Alg{"HS256"}},
		"a negative leeway": {Issuer: issuer, Audience: audience, Leeway: -1},
	} {
		if _, err := mint.NewVerifier(want, keys); err == nil {
			t.Errorf("%s: a verifier was made", what)
		}
	}
	if _, err := mint.NewVerifier(mint.Expectation{Issuer: issuer, Audience: audience}, nil); err == nil {
		t.Error("no keys: a verifier was made")
	}
	seen := map[mint.Fault]bool{}
	for _, f := range mint.Faults() {
		if f == "" || seen[f] {
			t.Errorf("fault %q is empty or listed twice", f)
		}
		seen[f] = true
	}
}

// FuzzVerify: nothing but what the key has signed is accepted, and what is accepted is as expected.
func FuzzVerify(f *testing.F) {
	k := generate(f, mint.EdDSA)
	v := verifier(f, k)
	f.Add(header(k), payload(f, nil), true)
	f.Add(header(k), payload(f, map[string]string{"aud": `["x"]`}), true)
	f.Add(`{"alg":"none"}`, `{}`, false)
	f.Add(header(k), payload(f, nil), false)
	f.Fuzz(func(t *testing.T, header, payload string, signed bool) {
		token := forge(t, k, header, payload)
		if !signed {
			token = token[:strings.LastIndex(token, ".")+1] + strings.Repeat("A", 86)
		}
		got, err := v.Verify(token, now())
		if err != nil {
			if mint.FaultOf(err) == "" {
				t.Errorf("an error without a fault: %v", err)
			}
			return
		}
		if !signed || got.Subject == "" || got.ClientID == "" || got.ID == "" || got.KeyID != k.ID() || !now().Before(got.Expiry.Add(mint.DefaultLeeway)) {
			t.Errorf("accepted %s . %s (signed: %v) as %+v", header, payload, signed, got)
		}
	})
}
