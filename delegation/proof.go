package delegation

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
)

// proofPrefix starts every Docker workload proof, hashPrefix every stored hash of one.
const (
	proofPrefix = "nmp_obo_v1"
	hashPrefix  = "v1:sha256:"
)

// SecretSize is the length of a proof's secret in bytes. It is drawn at random, so that a plain SHA-256 hides it.
const SecretSize = 32

// Secret is the random part of a proof. It prints as a placeholder.
type Secret [SecretSize]byte

// Hash is what is stored of a secret.
func (s Secret) Hash() ProofHash {
	sum := sha256.Sum256(s[:])
	return ProofHash(hashPrefix + base64.RawURLEncoding.EncodeToString(sum[:]))
}

// Format prints a placeholder for every verb, so that no log or message ever holds a secret.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte("[secret]")) }

// MarshalText is the placeholder too: JSON and YAML encoders ask for it.
func (s Secret) MarshalText() ([]byte, error) { return []byte("[secret]"), nil }

// Proof is a Docker workload's subject token, taken apart:
// "nmp_obo_v1.<base64url of the row's name>.<base64url of the secret>", unpadded. The zero Proof matches nothing.
type Proof struct {
	// Name is the row that the proof claims to belong to.
	Name   string
	secret Secret
}

// ErrProofMalformed is every fault that a proof's text can have; the text is never repeated.
var ErrProofMalformed = errors.New("the workload proof is malformed")

// NewProof makes the proof of a row. The secret must come from a cryptographic source.
func NewProof(name string, secret Secret) (Proof, error) {
	if !ValidName(name) || secret == (Secret{}) {
		return Proof{}, ErrProofMalformed
	}
	return Proof{Name: name, secret: secret}, nil
}

// ParseProof reads a proof. Each proof has exactly one spelling: spaces, padding, the other base64 alphabet and spare bits
// at the end are refused (checklist G5, G6).
func ParseProof(token string) (Proof, error) {
	parts := strings.SplitN(token, ".", 4)
	if len(parts) != 3 || parts[0] != proofPrefix {
		return Proof{}, ErrProofMalformed
	}
	name, ok := decodeExactly(parts[1])
	secret, ok2 := decodeExactly(parts[2])
	if !ok || !ok2 || len(secret) != SecretSize {
		return Proof{}, ErrProofMalformed
	}
	return NewProof(string(name), Secret(secret))
}

// Token is the proof's text: the content of the workload's token file.
func (p Proof) Token() string {
	enc := base64.RawURLEncoding
	return proofPrefix + "." + enc.EncodeToString([]byte(p.Name)) + "." + enc.EncodeToString(p.secret[:])
}

// Hash is what is stored of the proof's secret.
func (p Proof) Hash() ProofHash { return p.secret.Hash() }

// Matches says whether the proof's secret is the one whose hash is stored. It takes the same time for every hash, and an
// empty or broken hash, which is what an unknown row has, costs what a real one does: it is compared with a dummy.
func (p Proof) Matches(stored ProofHash) bool {
	want, known := stored.sum()
	got := sha256.Sum256(p.secret[:])
	same := subtle.ConstantTimeCompare(got[:], want[:]) == 1
	return same && known && p.secret != (Secret{})
}

// Format prints the row's name alone, for every verb.
func (p Proof) Format(f fmt.State, _ rune) { _, _ = fmt.Fprintf(f, "proof of %q", p.Name) }

// MarshalText is the row's name alone.
func (p Proof) MarshalText() ([]byte, error) { return []byte(p.Name), nil }

// ProofHash is a secret's stored hash, "v1:sha256:<base64url of the sum>". It is no secret, but is left out of answers.
type ProofHash string

// Valid says whether the hash can match any proof at all.
func (h ProofHash) Valid() bool {
	_, ok := h.sum()
	return ok
}

// sum is the stored sum, or a dummy that nobody can meet.
func (h ProofHash) sum() (sum [sha256.Size]byte, known bool) {
	const dummy = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA" // 32 zero bytes: as long as any sum
	text, found := strings.CutPrefix(string(h), hashPrefix)
	if !found || len(text) != len(dummy) {
		text, found = dummy, false
	}
	b, ok := decodeExactly(text)
	if !ok || len(b) != sha256.Size {
		return sum, false
	}
	return [sha256.Size]byte(b), found
}

// decodeExactly decodes unpadded base64url strictly. The decoder alone would skip newlines.
func decodeExactly(s string) ([]byte, bool) {
	if strings.ContainsAny(s, "\r\n") {
		return nil, false
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(s)
	return b, err == nil
}
