package principal_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"go.uber.org/goleak"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/client/principal"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	issuer   = "https://lanyard.example/apis/auth"
	audience = "nemo-platform-api"
	runner   = "system:serviceaccount:runs:runner"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// signer is a signing key and its id.
type signer struct {
	key crypto.Signer
	id  string
	alg jose.SignatureAlgorithm
}

func newSigner(t testing.TB, id string, alg jose.SignatureAlgorithm) signer {
	t.Helper()
	var key crypto.Signer
	var err error
	switch alg {
	case jose.RS256:
		key, err = rsa.GenerateKey(rand.Reader, 2048)
	case jose.EdDSA:
		_, key, err = ed25519.GenerateKey(rand.Reader)
	default:
		key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	}
	must(t, err)
	return signer{key, id, alg}
}

func (s signer) jwk() jose.JSONWebKey {
	return jose.JSONWebKey{Key: s.key.Public(), KeyID: s.id, Algorithm: string(s.alg), Use: "sig"}
}

func (s signer) header() string {
	return fmt.Sprintf(`{"alg":%q,"kid":%q,"typ":"at+jwt"}`, s.alg, s.id)
}

// sign makes a token of any header and payload.
func (s signer) sign(t testing.TB, header, payload string) string {
	t.Helper()
	enc := base64.RawURLEncoding
	input := enc.EncodeToString([]byte(header)) + "." + enc.EncodeToString([]byte(payload))
	digest := sha256.Sum256([]byte(input))
	var sig []byte
	var err error
	switch key := s.key.(type) {
	case *ecdsa.PrivateKey:
		r, v, e := ecdsa.Sign(rand.Reader, key, digest[:])
		sig, err = append(r.FillBytes(make([]byte, 32)), v.FillBytes(make([]byte, 32))...), e
	case *rsa.PrivateKey:
		sig, err = key.Sign(rand.Reader, digest[:], crypto.SHA256)
	default:
		sig, err = key.Sign(rand.Reader, []byte(input), crypto.Hash(0))
	}
	must(t, err)
	return input + "." + enc.EncodeToString(sig)
}

// token is a good token, with claims changed (raw JSON) or, where the value is "", left out.
func (s signer) token(t testing.TB, changes map[string]string) string {
	t.Helper()
	return s.sign(t, s.header(), claims(changes))
}

func claims(changes map[string]string) string {
	now := time.Now().Unix()
	members := map[string]string{
		"iss": quote(issuer), "sub": `"alice"`, "act": `{"sub":` + quote(runner) + `}`, "aud": quote(audience), "iat": fmt.Sprint(now), "nbf": fmt.Sprint(now),
		"exp": fmt.Sprint(now + 300), "jti": `"1"`, "client_id": `"nemo-platform"`,
	}
	maps.Copy(members, changes)
	var list []string
	for name, value := range members {
		if value != "" {
			list = append(list, quote(name)+":"+value)
		}
	}
	return "{" + strings.Join(list, ",") + "}"
}

func quote(s string) string { return fmt.Sprintf("%q", s) }

// publisher answers for the exchange's keys.
type publisher struct {
	mu      sync.Mutex
	body    string
	control string
	status  int
	down    bool
	asked   int
	hold    chan struct{}
}

func publishes(t testing.TB, signers ...signer) *publisher {
	t.Helper()
	p := &publisher{control: "public, max-age=300"}
	p.set(t, signers...)
	return p
}

func (p *publisher) set(t testing.TB, signers ...signer) {
	t.Helper()
	set := jose.JSONWebKeySet{Keys: []jose.JSONWebKey{}}
	for _, s := range signers {
		set.Keys = append(set.Keys, s.jwk())
	}
	body, err := json.Marshal(set)
	must(t, err)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.body = string(body)
}

func (p *publisher) fail(down bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = down
}

func (p *publisher) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked
}

// RoundTrip answers.
func (p *publisher) RoundTrip(r *http.Request) (*http.Response, error) {
	p.mu.Lock()
	p.asked++
	hold := p.hold
	p.mu.Unlock()
	if hold != nil {
		<-hold
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.down {
		return nil, io.ErrUnexpectedEOF
	}
	status := p.status
	if status == 0 {
		status = 200
	}
	if r.URL.String() != "https://platform.example/x"+wire.PathJWKS {
		status = 404
	}
	return &http.Response{StatusCode: status, Header: http.Header{"Cache-Control": {p.control}}, Body: io.NopCloser(strings.NewReader(p.body)), Request: r}, nil
}

func (p *publisher) guard(t testing.TB, change ...func(*principal.Options)) *principal.Guard {
	t.Helper()
	o := principal.Options{BaseURL: "https://platform.example/x/", Issuer: issuer, Audience: audience, Transport: p}
	for _, c := range change {
		c(&o)
	}
	g, err := principal.NewGuard(o)
	must(t, err)
	return g
}

// refuse holds a guard to refusing a token for a reason; "" means that it accepts it.
func refuse(t *testing.T, g *principal.Guard, what, token string, want principal.Reason) {
	t.Helper()
	who, err := g.Verify(t.Context(), token)
	if principal.ReasonOf(err) != want || (err == nil) != (want == "") {
		t.Errorf("%s: got %+v, %v; want %q", what, who, err, want)
	}
	if err != nil && who.ID != "" {
		t.Errorf("%s: refused, and returned %+v", what, who)
	}
}
