package mint

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"

	"github.com/go-jose/go-jose/v4"
)

// Alg is a signature algorithm, by its JOSE name.
type Alg string

// The algorithms.
const (
	ES256 Alg = "ES256"
	RS256 Alg = "RS256"
	EdDSA Alg = "EdDSA"
)

// Algs lists every algorithm once, the default first.
func Algs() []Alg { return []Alg{ES256, RS256, EdDSA} }

// minRSA is the least number of bits in an RSA modulus (RFC 7518 section 3.3); new ones have this many.
const minRSA = 2048

// Why a key cannot be used, for errors.Is.
var (
	// ErrKeyMissing: there is none.
	ErrKeyMissing = errors.New("there is no signing key; `exchange rotate-keys` makes one")
	// ErrKeyUnreadable: it is neither PEM nor a JWK.
	ErrKeyUnreadable = errors.New("the signing key cannot be read; it must be one private key, as PEM (PKCS#8, SEC 1, PKCS#1) or as a JWK")
	// ErrKeyWeak: it is too short.
	ErrKeyWeak = errors.New("the signing key is too weak; RSA needs 2048 bits")
	// ErrKeyKind: it is another kind of key.
	ErrKeyKind = errors.New("the signing key is of the wrong kind; it must be a private key for ES256 (P-256), RS256 or EdDSA (Ed25519)")
)

// Key is a signing key. It prints, logs and marshals as its id, and never as more. The zero Key signs nothing.
type Key struct {
	id  string
	alg Alg
	// private is a function so that even printers that look into unexported fields, as fmt does one level down, find no number.
	private func() crypto.Signer
}

// Generate makes a key. Its id is its RFC 7638 thumbprint.
func Generate(alg Alg) (Key, error) {
	var (
		private crypto.Signer
		err     error
	)
	switch alg {
	case ES256:
		private, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case RS256:
		private, err = rsa.GenerateKey(rand.Reader, minRSA)
	case EdDSA:
		_, private, err = ed25519.GenerateKey(rand.Reader)
	default:
		return Key{}, fmt.Errorf("generate a key for %q: %w", alg, ErrKeyKind)
	}
	if err != nil {
		return Key{}, fmt.Errorf("generate a key: %w", err)
	}
	return newKey(private, "")
}

// newKey checks a private key. An empty id means the thumbprint.
func newKey(private any, id string) (Key, error) {
	signer, alg, err := usable(private)
	if err != nil {
		return Key{}, err
	}
	if id == "" {
		if id, err = thumbprint(signer.Public()); err != nil {
			return Key{}, err
		}
	}
	if !validKeyID(id) {
		return Key{}, fmt.Errorf("%w: its id must be 1 to 128 letters, digits, '-', '_' or '.'", ErrKeyUnreadable)
	}
	return Key{id: id, alg: alg, private: func() crypto.Signer { return signer }}, nil
}

// usable finds the algorithm of a private key, and refuses keys that have none or are weak.
func usable(private any) (crypto.Signer, Alg, error) {
	switch k := private.(type) {
	case *ecdsa.PrivateKey:
		if k.Curve != elliptic.P256() {
			return nil, "", fmt.Errorf("%w: its curve is %s", ErrKeyKind, k.Curve.Params().Name)
		}
		return k, ES256, nil
	case *rsa.PrivateKey:
		if bits := k.N.BitLen(); bits < minRSA {
			return nil, "", fmt.Errorf("%w: it has %d", ErrKeyWeak, bits)
		}
		if err := k.Validate(); err != nil {
			return nil, "", fmt.Errorf("%w: its numbers do not belong together", ErrKeyUnreadable)
		}
		return k, RS256, nil
	case ed25519.PrivateKey:
		if len(k) != ed25519.PrivateKeySize {
			return nil, "", fmt.Errorf("%w: it is cut", ErrKeyUnreadable)
		}
		return k, EdDSA, nil
	default:
		return nil, "", fmt.Errorf("%w: it is none of these", ErrKeyKind)
	}
}

// thumbprint is RFC 7638's, with SHA-256.
func thumbprint(public crypto.PublicKey) (string, error) {
	jwk := jose.JSONWebKey{Key: public}
	sum, err := jwk.Thumbprint(crypto.SHA256)
	if err != nil {
		return "", fmt.Errorf("take the key's thumbprint: %w", err)
	}
	return base64.RawURLEncoding.EncodeToString(sum), nil
}

// validKeyID keeps ids to what needs no escaping in a header, a URL, a log or a Secret's key.
func validKeyID(id string) bool {
	for i := range len(id) {
		c := id[i]
		if (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' && c != '.' {
			return false
		}
	}
	return id != "" && len(id) <= 128
}

// ID is the key's id, the header "kid".
func (k Key) ID() string { return k.id }

// Alg is what the key signs with.
func (k Key) Alg() Alg { return k.alg }

// Public is what verifiers get; zero for the zero Key.
func (k Key) Public() PublicKey {
	if k.private == nil {
		return PublicKey{}
	}
	return PublicKey{ID: k.id, Alg: k.alg, Key: k.private().Public()}
}

// PEM is the private key in PKCS#8, for the one place where it is kept. Nothing else may ask for it.
func (k Key) PEM() ([]byte, error) {
	if k.private == nil {
		return nil, ErrKeyMissing
	}
	der, err := x509.MarshalPKCS8PrivateKey(k.private())
	if err != nil {
		return nil, fmt.Errorf("write the signing key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

// Format prints the id for every verb.
func (k Key) Format(f fmt.State, _ rune) { _, _ = fmt.Fprintf(f, "signing key %q (%s)", k.id, k.alg) }

// MarshalText is the id: JSON, YAML and structured loggers ask for it.
func (k Key) MarshalText() ([]byte, error) { return []byte(k.id), nil }

// PublicKey is a published key.
type PublicKey struct {
	ID  string
	Alg Alg
	Key crypto.PublicKey
}
