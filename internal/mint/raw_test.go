package mint_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"math/big"
	"testing"

	"github.com/lanyard-k8s/lanyard/internal/mint"
)

func private(t testing.TB, text []byte) crypto.Signer {
	t.Helper()
	block, _ := pem.Decode(text)
	k, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return k.(crypto.Signer)
}

func rawSign(o opaque) ([]byte, error) {
	sum := sha256.Sum256([]byte(o.input))
	switch k := o.private.(type) {
	case *ecdsa.PrivateKey:
		r, s, err := ecdsa.Sign(rand.Reader, k, sum[:])
		if err != nil {
			return nil, err
		}
		out := make([]byte, 64)
		r.FillBytes(out[:32])
		s.FillBytes(out[32:])
		return out, nil
	default:
		if o.alg == mint.EdDSA {
			return o.private.Sign(rand.Reader, []byte(o.input), crypto.Hash(0))
		}
		return o.private.Sign(rand.Reader, sum[:], crypto.SHA256)
	}
}

func b64(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

func decimal(b []byte) string { return new(big.Int).SetBytes(b).String() }

// numbers are the private numbers of a key.
func numbers(t testing.TB, text []byte) [][]byte {
	t.Helper()
	switch k := private(t, text).(type) {
	case *ecdsa.PrivateKey:
		d, err := k.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		return [][]byte{d}
	case *rsa.PrivateKey:
		return [][]byte{k.D.Bytes(), k.Primes[0].Bytes(), k.Primes[1].Bytes()}
	case ed25519.PrivateKey:
		return [][]byte{k.Seed()}
	default:
		t.Fatalf("a key of type %T", k)
		return nil
	}
}
