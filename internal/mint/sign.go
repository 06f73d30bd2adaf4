package mint

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/go-jose/go-jose/v4"

	"github.com/lanyard-k8s/lanyard/delegation"
	"github.com/lanyard-k8s/lanyard/exchange/grant"
)

// tokenType is the header "typ" (RFC 9068 section 2.1): no other JWT of ours or anybody's has it by accident.
const tokenType = "at+jwt"

// ErrClaims are claims that no token is made of. It is a fault of the program.
var ErrClaims = errors.New("the claims are incomplete")

// NewID is a token's id: the row that it was granted on and 128 random bits. The row is there so that a gateway, which sees the token
// alone, can ask whether the row still stands.
func NewID(row string) string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	return row + "." + base64.RawURLEncoding.EncodeToString(b[:])
}

// RowOf is the row in the id of a verified token; false if there is none.
func RowOf(id string) (string, bool) {
	row, _, found := strings.Cut(id, ".")
	if !found || !delegation.ValidName(row) {
		return "", false
	}
	return row, true
}

// Signer signs with one key. It may be used by several goroutines.
type Signer struct {
	signer jose.Signer
	id     string
}

// NewSigner prepares a key for signing.
func NewSigner(k Key) (*Signer, error) {
	if k.private == nil {
		return nil, fmt.Errorf("prepare the signing key: %w", ErrKeyMissing)
	}
	s, err := jose.NewSigner(
		jose.SigningKey{Algorithm: jose.SignatureAlgorithm(k.alg), Key: jose.JSONWebKey{Key: k.private(), KeyID: k.id}},
		(&jose.SignerOptions{}).WithType(tokenType),
	)
	if err != nil {
		return nil, fmt.Errorf("prepare the signing key: %w", ErrKeyKind)
	}
	return &Signer{signer: s, id: k.id}, nil
}

// KeyID is the id of the key.
func (s *Signer) KeyID() string { return s.id }

// Sign makes the token of complete claims, the id among them.
func (s *Signer) Sign(c grant.Claims) (string, error) {
	for _, required := range []string{c.Issuer, c.Subject, c.Actor.Subject, c.Audience, c.ID, c.ClientID} {
		if required == "" {
			return "", fmt.Errorf("sign a token: %w", ErrClaims)
		}
	}
	if c.IssuedAt <= 0 || c.NotBefore <= 0 || c.Expiry <= c.IssuedAt {
		return "", fmt.Errorf("sign a token: %w: its times", ErrClaims)
	}
	payload, err := json.Marshal(c)
	if err != nil {
		return "", fmt.Errorf("sign a token: %w", err)
	}
	signed, err := s.signer.Sign(payload)
	if err != nil {
		return "", fmt.Errorf("sign a token: %w", err)
	}
	token, err := signed.CompactSerialize()
	if err != nil {
		return "", fmt.Errorf("sign a token: %w", err)
	}
	return token, nil
}

// Format prints the key's id, for every verb.
func (s *Signer) Format(f fmt.State, _ rune) { _, _ = fmt.Fprintf(f, "signer with key %q", s.id) }
