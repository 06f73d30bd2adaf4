package mint_test

import (
	"crypto/elliptic"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lanyard-k8s/lanyard/delegation"
	"github.com/lanyard-k8s/lanyard/exchange/grant"
	"github.com/lanyard-k8s/lanyard/internal/mint"
)

// TestTokens is the token of each algorithm: its header (H1), its claims (H2 to H5), its signature (H11), and that it verifies.
func TestTokens(t *testing.T) {
	t.Parallel()
	for _, alg := range mint.Algs() {
		t.Run(string(alg), func(t *testing.T) {
			t.Parallel()
			k, c := generate(t, alg), claims()
			token := sign(t, k, c)
			wantHeader := fmt.Sprintf(`{"alg":%q,"kid":%q,"typ":"at+jwt"}`, alg, k.ID())
			if diff := cmp.Diff(wantHeader, part(t, token, 0)); diff != "" {
				t.Errorf("H1: header (-want +got):\n%s", diff)
			}
			wantClaims := fmt.Sprintf(`{"iss":"https://lanyard.example/apis/auth","sub":"alice","act":{"sub":"system:serviceaccount:runs:runner"},"aud":"nemo-platform-api",`+
				`"iat":1767323045,"nbf":1767323045,"exp":1767323345,"jti":%q,"client_id":"nemo-platform","scope":"openid email"}`, c.ID)
			if diff := cmp.Diff(wantClaims, part(t, token, 1)); diff != "" {
				t.Errorf("H2: claims (-want +got):\n%s", diff)
			}
			if n := len(part(t, token, 2)); n != map[mint.Alg]int{mint.ES256: 64, mint.EdDSA: 64, mint.RS256: 256}[alg] {
				t.Errorf("H11: the signature has %d bytes", n)
			}
			got, err := verifier(t, k).Verify(token, now())
			if err != nil {
				t.Fatal(err)
			}
			want := mint.Token{
				Subject: "alice", Actor: c.Actor.Subject, Scope: c.Scope, ClientID: c.ClientID, ID: c.ID, KeyID: k.ID(),
				IssuedAt: now().Local(), Expiry: now().Local().Add(300e9),
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("token (-want +got):\n%s", diff)
			}
		})
	}
}

// TestSignaturesWithLeadingZeros signs until r and s have had a zero byte in front: H11.
func TestSignaturesWithLeadingZeros(t *testing.T) {
	t.Parallel()
	k := generate(t, mint.ES256)
	s, v := signer(t, k), verifier(t, k)
	zeros := map[int]bool{}
	for i := 0; len(zeros) < 2 && i < 5000; i++ {
		token, err := s.Sign(claims())
		if err != nil {
			t.Fatal(err)
		}
		raw := part(t, token, 2)
		for _, at := range []int{0, 32} {
			if raw[at] != 0 || zeros[at] {
				continue
			}
			zeros[at] = true
			if _, err := v.Verify(token, now()); err != nil {
				t.Errorf("a zero at byte %d: %v", at, err)
			}
			if new(big.Int).SetBytes([]byte(raw[at:at+32])).Cmp(elliptic.P256().Params().N) >= 0 {
				t.Error("the number is too large")
			}
		}
	}
	if len(zeros) < 2 {
		t.Error("no signature had a zero byte in front")
	}
}

func TestIDs(t *testing.T) {
	t.Parallel()
	row := delegation.DockerName("w", "job", "j", "1")
	seen := map[string]bool{}
	for range 1000 {
		id := mint.NewID(row)
		got, ok := mint.RowOf(id)
		if seen[id] || got != row || !ok || len(id) != len(row)+1+22 {
			t.Fatalf("H9: id %q twice, of row %q, or not of 128 bits", id, got)
		}
		seen[id] = true
	}
	for _, id := range []string{"", "x", row, "." + row, "x." + row, strings.ToUpper(row) + ".x"} {
		if got, ok := mint.RowOf(id); ok || got != "" {
			t.Errorf("the id %q has the row %q", id, got)
		}
	}
}

func TestIncompleteClaimsAreNotSigned(t *testing.T) {
	t.Parallel()
	s := signer(t, generate(t, mint.EdDSA))
	for name, change := range map[string]func(*grant.Claims){
		"everything":             func(c *grant.Claims) { *c = grant.Claims{} },
		"issuer":                 func(c *grant.Claims) { c.Issuer = "" },
		"subject":                func(c *grant.Claims) { c.Subject = "" },
		"actor":                  func(c *grant.Claims) { c.Actor.Subject = "" },
		"audience":               func(c *grant.Claims) { c.Audience = "" },
		"id":                     func(c *grant.Claims) { c.ID = "" },
		"client":                 func(c *grant.Claims) { c.ClientID = "" },
		"time":                   func(c *grant.Claims) { c.IssuedAt = 0 },
		"not before":             func(c *grant.Claims) { c.NotBefore = 0 },
		"an end after the start": func(c *grant.Claims) { c.Expiry = c.IssuedAt },
	} {
		c := claims()
		change(&c)
		if token, err := s.Sign(c); !errors.Is(err, mint.ErrClaims) || token != "" {
			t.Errorf("without %s: error is %v, want ErrClaims", name, err)
		}
	}
	if _, err := mint.NewSigner(mint.Key{}); !errors.Is(err, mint.ErrKeyMissing) {
		t.Errorf("the zero key: error is %v, want ErrKeyMissing", err)
	}
}

func BenchmarkSign(b *testing.B) {
	for _, alg := range mint.Algs() {
		b.Run(string(alg), func(b *testing.B) {
			s, c := signer(b, generate(b, alg)), claims()
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.Sign(c); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkVerify(b *testing.B) {
	for _, alg := range mint.Algs() {
		b.Run(string(alg), func(b *testing.B) {
			k := generate(b, alg)
			token, v := sign(b, k, claims()), verifier(b, k)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := v.Verify(token, now()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
