package mint_test

import (
	"crypto"
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"go.uber.org/goleak"

	"github.com/lanyard-k8s/lanyard/delegation"
	"github.com/lanyard-k8s/lanyard/exchange/grant"
	"github.com/lanyard-k8s/lanyard/internal/mint"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	issuer   = "https://lanyard.example/apis/auth"
	audience = "nemo-platform-api"
)

func now() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) }

func claims() grant.Claims {
	return grant.Claims{
		Issuer: issuer, Subject: "alice", Actor: grant.Actor{Subject: "system:serviceaccount:runs:runner"}, Audience: audience,
		IssuedAt: now().Unix(), NotBefore: now().Unix(), Expiry: now().Unix() + 300, ClientID: "nemo-platform", Scope: "openid email",
		ID: mint.NewID(delegation.PodName(audience, "system:serviceaccount:runs:runner", "pod-1")),
	}
}

func generate(t testing.TB, alg mint.Alg) mint.Key {
	t.Helper()
	k, err := mint.Generate(alg)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func signer(t testing.TB, k mint.Key) *mint.Signer {
	t.Helper()
	s, err := mint.NewSigner(k)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func sign(t testing.TB, k mint.Key, c grant.Claims) string {
	t.Helper()
	token, err := signer(t, k).Sign(c)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// knows finds keys among these.
func knows(keys ...mint.Key) func(string) (mint.PublicKey, bool) {
	return func(id string) (mint.PublicKey, bool) {
		for _, k := range keys {
			if k.ID() == id {
				return k.Public(), true
			}
		}
		return mint.PublicKey{}, false
	}
}

func verifier(t testing.TB, keys ...mint.Key) *mint.Verifier {
	t.Helper()
	v, err := mint.NewVerifier(mint.Expectation{Issuer: issuer, Audience: audience}, knows(keys...))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// part decodes a part of a token.
func part(t testing.TB, token string, i int) string {
	t.Helper()
	b, err := base64.RawURLEncoding.Strict().DecodeString(strings.Split(token, ".")[i])
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// forge signs any header and payload with a key, as nobody honest would.
func forge(t testing.TB, k mint.Key, header, payload string) string {
	t.Helper()
	enc := base64.RawURLEncoding
	input := enc.EncodeToString([]byte(header)) + "." + enc.EncodeToString([]byte(payload))
	pem, err := k.PEM()
	if err != nil {
		t.Fatal(err)
	}
	return input + "." + enc.EncodeToString(signature(t, pem, k.Alg(), input))
}

// signature is what the algorithm makes of any input.
func signature(t testing.TB, pem []byte, alg mint.Alg, input string) []byte {
	t.Helper()
	private := private(t, pem)
	s, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.SignatureAlgorithm(alg), Key: opaque{private, alg, input}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := s.Sign([]byte("{}"))
	if err != nil {
		t.Fatal(err)
	}
	return signed.Signatures[0].Signature
}

// opaque signs its own input instead of what it is given.
type opaque struct {
	private crypto.Signer
	alg     mint.Alg
	input   string
}

func (o opaque) Public() *jose.JSONWebKey { return &jose.JSONWebKey{Key: o.private.Public()} }

func (o opaque) Algs() []jose.SignatureAlgorithm {
	return []jose.SignatureAlgorithm{jose.SignatureAlgorithm(o.alg)}
}

func (o opaque) SignPayload([]byte, jose.SignatureAlgorithm) ([]byte, error) { return rawSign(o) }
