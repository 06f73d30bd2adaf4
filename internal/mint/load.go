package mint

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"fmt"

	"github.com/go-jose/go-jose/v4"
)

// Load reads one private key, PEM or JWK. A JWK's "kid" is kept; otherwise the id is the thumbprint. Errors name what is wrong and
// hold nothing of the key.
func Load(data []byte) (Key, error) {
	data = bytes.TrimSpace(data)
	switch {
	case len(data) == 0:
		return Key{}, fmt.Errorf("load the signing key: %w", ErrKeyMissing)
	case data[0] == '{':
		return loadJWK(data)
	default:
		return loadPEM(data)
	}
}

// LoadAs is Load with a configured id.
func LoadAs(data []byte, id string) (Key, error) {
	k, err := Load(data)
	if err != nil {
		return Key{}, err
	}
	k, err = newKey(k.private(), id)
	if err != nil {
		return Key{}, fmt.Errorf("load the signing key: %w", err)
	}
	return k, nil
}

func loadPEM(data []byte) (Key, error) {
	var found any
	for {
		block, rest := pem.Decode(data)
		if block == nil {
			break
		}
		data = rest
		if block.Type == "EC PARAMETERS" { // openssl writes it in front of the key
			continue
		}
		private, err := parseBlock(block)
		if err != nil {
			return Key{}, fmt.Errorf("load the signing key: %w", err)
		}
		if found != nil {
			return Key{}, fmt.Errorf("load the signing key: %w: there are two", ErrKeyUnreadable)
		}
		found = private
	}
	if found == nil || len(bytes.TrimSpace(data)) > 0 {
		return Key{}, fmt.Errorf("load the signing key: %w", ErrKeyUnreadable)
	}
	k, err := newKey(found, "")
	if err != nil {
		return Key{}, fmt.Errorf("load the signing key: %w", err)
	}
	return k, nil
}

// parseBlock reads one PEM block. The parsers' own errors are left out: they may quote what they read.
func parseBlock(block *pem.Block) (private any, err error) {
	switch block.Type {
	case "PRIVATE KEY":
		private, err = x509.ParsePKCS8PrivateKey(block.Bytes)
	case "EC PRIVATE KEY":
		private, err = x509.ParseECPrivateKey(block.Bytes)
	case "RSA PRIVATE KEY":
		if block.Headers["DEK-Info"] != "" {
			return nil, fmt.Errorf("%w: it is encrypted", ErrKeyUnreadable)
		}
		private, err = x509.ParsePKCS1PrivateKey(block.Bytes)
	case "ENCRYPTED PRIVATE KEY":
		return nil, fmt.Errorf("%w: it is encrypted", ErrKeyUnreadable)
	case "PUBLIC KEY", "RSA PUBLIC KEY", "CERTIFICATE":
		return nil, fmt.Errorf("%w: it is a public one", ErrKeyKind)
	default:
		return nil, fmt.Errorf("%w: a PEM block is of another type", ErrKeyUnreadable)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: the PEM block's content is damaged", ErrKeyUnreadable)
	}
	return private, nil
}

func loadJWK(data []byte) (Key, error) {
	var jwk jose.JSONWebKey
	if err := jwk.UnmarshalJSON(data); err != nil {
		return Key{}, fmt.Errorf("load the signing key: %w: it is no JWK", ErrKeyUnreadable)
	}
	if _, symmetric := jwk.Key.([]byte); symmetric || jwk.IsPublic() {
		return Key{}, fmt.Errorf("load the signing key: %w: it is a public or a symmetric one", ErrKeyKind)
	}
	k, err := newKey(jwk.Key, jwk.KeyID)
	if err != nil {
		return Key{}, fmt.Errorf("load the signing key: %w", err)
	}
	if (jwk.Algorithm != "" && jwk.Algorithm != string(k.alg)) || (jwk.Use != "" && jwk.Use != "sig") {
		return Key{}, fmt.Errorf("load the signing key: %w: it is marked for another use or algorithm", ErrKeyKind)
	}
	return k, nil
}
