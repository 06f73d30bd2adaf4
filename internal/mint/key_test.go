package mint_test

import (
	"bytes"
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"github.com/lanyard-k8s/lanyard/internal/mint"
)

func TestKeysComeBackFromPEM(t *testing.T) {
	t.Parallel()
	for _, alg := range mint.Algs() {
		k := generate(t, alg)
		text, err := k.PEM()
		if err != nil {
			t.Fatal(err)
		}
		again, err := mint.Load(append([]byte("\n\n"), text...))
		if err != nil || again.ID() != k.ID() || again.Alg() != alg {
			t.Fatalf("%s: got %v, %v, want %v", alg, again, err, k)
		}
		refuse(t, verifier(t, k), "signed by the key that was read", sign(t, again, claims()), "")
		named, err := mint.LoadAs(text, "2026-01.a")
		if err != nil || named.ID() != "2026-01.a" {
			t.Errorf("%s under another name: %v, %v", alg, named, err)
		}
	}
}

// block is a PEM block.
func block(kind string, der []byte, err error) string {
	if err != nil {
		panic(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

func pkcs8(private any) string {
	der, err := x509.MarshalPKCS8PrivateKey(private)
	return block("PRIVATE KEY", der, err)
}

func jwk(key any, change func(*jose.JSONWebKey)) string {
	j := jose.JSONWebKey{Key: key}
	if change != nil {
		change(&j)
	}
	b, err := json.Marshal(j)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func TestLoad(t *testing.T) {
	t.Parallel()
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	weak, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	strong, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	x25519, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	sec1, sec1Err := x509.MarshalECPrivateKey(ec)
	spki, spkiErr := x509.MarshalPKIXPublicKey(ec.Public())
	encrypted := string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Headers: map[string]string{"Proc-Type": "4,ENCRYPTED", "DEK-Info": "AES-128-CBC,00"}, Bytes: []byte{1}}))
	for name, tc := range map[string]struct {
		text string
		want error
	}{
		"PKCS#8, EC":              {pkcs8(ec), nil},
		"PKCS#8, RSA":             {pkcs8(strong), nil},
		"PKCS#8, Ed25519":         {pkcs8(ed), nil},
		"SEC 1":                   {block("EC PRIVATE KEY", sec1, sec1Err), nil},
		"SEC 1 behind its curve":  {block("EC PARAMETERS", []byte{6, 8, 42}, nil) + block("EC PRIVATE KEY", sec1, sec1Err), nil},
		"PKCS#1":                  {block("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(strong), nil), nil},
		"JWK, EC":                 {jwk(ec, nil), nil},
		"JWK, RSA":                {jwk(strong, func(j *jose.JSONWebKey) { j.Algorithm, j.Use = "RS256", "sig" }), nil},
		"JWK, Ed25519":            {jwk(ed, func(j *jose.JSONWebKey) { j.KeyID = "mine" }), nil},
		"nothing":                 {"", mint.ErrKeyMissing},
		"blank":                   {" \n\t", mint.ErrKeyMissing},
		"words":                   {"secret", mint.ErrKeyUnreadable},
		"half a block":            {pkcs8(ec)[:60], mint.ErrKeyUnreadable},
		"a block and words":       {pkcs8(ec) + "secret", mint.ErrKeyUnreadable},
		"two keys":                {pkcs8(ec) + pkcs8(ed), mint.ErrKeyUnreadable},
		"a damaged block":         {block("PRIVATE KEY", []byte("x"), nil), mint.ErrKeyUnreadable},
		"a block of another type": {block("SSH", []byte("x"), nil), mint.ErrKeyUnreadable},
		"encrypted":               {block("ENCRYPTED PRIVATE KEY", []byte("x"), nil), mint.ErrKeyUnreadable},
		"encrypted, the old way":  {encrypted, mint.ErrKeyUnreadable},
		"a public key":            {block("PUBLIC KEY", spki, spkiErr), mint.ErrKeyKind},
		"a certificate":           {block("CERTIFICATE", []byte("x"), nil), mint.ErrKeyKind},
		"P-384":                   {pkcs8(p384), mint.ErrKeyKind},
		"X25519":                  {pkcs8(x25519), mint.ErrKeyKind},
		"RSA of 1024":             {pkcs8(weak), mint.ErrKeyWeak},
		"RSA of 1024, PKCS#1":     {block("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(weak), nil), mint.ErrKeyWeak},
		"JWK, RSA of 1024":        {jwk(weak, nil), mint.ErrKeyWeak},
		"JWK, public":             {jwk(ec.Public(), nil), mint.ErrKeyKind},
		"JWK, symmetric":          {jwk([]byte("0123456789abcdef0123456789abcdef"), nil), mint.ErrKeyKind},
		"JWK, P-384":              {jwk(p384, nil), mint.ErrKeyKind},
		"JWK for encryption":      {jwk(ec, func(j *jose.JSONWebKey) { j.Use = "enc" }), mint.ErrKeyKind},
		"JWK for ES384":           {jwk(ec, func(j *jose.JSONWebKey) { j.Algorithm = "ES384" }), mint.ErrKeyKind},
		"JWK with a strange id":   {jwk(ec, func(j *jose.JSONWebKey) { j.KeyID = "../x" }), mint.ErrKeyUnreadable},
		"JWK, broken":             {`{"kty":"EC"`, mint.ErrKeyUnreadable},
		"JWK, of nothing":         {`{}`, mint.ErrKeyUnreadable},
		"a JWK set":               {`{"keys":[` + jwk(ec, nil) + `]}`, mint.ErrKeyUnreadable},
	} {
		k, err := mint.Load([]byte(tc.text))
		if !errors.Is(err, tc.want) || (err == nil) != (tc.want == nil) || (err == nil) == (k.ID() == "") {
			t.Errorf("%s: got %v, %v, want %v", name, k, err, tc.want)
		}
		if strings.Contains(fmt.Sprint(err), "secret") {
			t.Errorf("%s: the error holds what was read: %v", name, err)
		}
	}
}

// TestH10Thumbprint is the example of RFC 7638 section 3.1: its key is public, so a private one of the same public part is not to be had;
// the published set shows the id all the same.
func TestH10Thumbprint(t *testing.T) {
	t.Parallel()
	k := generate(t, mint.RS256)
	public := jose.JSONWebKey{Key: k.Public().Key}
	sum, err := public.Thumbprint(5) // crypto.SHA256
	if err != nil || k.ID() != strings.TrimRight(b64(sum), "=") {
		t.Errorf("the id is %s, the thumbprint %s, %v", k.ID(), b64(sum), err)
	}
	var example jose.JSONWebKey
	if err := json.Unmarshal([]byte(rfc7638), &example); err != nil {
		t.Fatal(err)
	}
	if got, err := mint.Thumbprint(example.Key); err != nil || got != "NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs" {
		t.Errorf("thumbprint %s, %v", got, err)
	}
}

const rfc7638 = `{"kty":"RSA","n":"0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc_BJECPebWKRXjBZCiFV4n3oknjhMstn64tZ_2W-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4QyQ5v-65YGjQR0_FDW2QvzqY368QQMicAtaSqzs8KJZgnYb9c7d0zgdAZHzu6qMQvRL5hajrn1n91CbOpbISD08qNLyrdkt-bFTWhAI4vMQFh6WeZu0fM4lFd2NcRwr3XPksINHaQ-G_xBniIqbw0Ls1jF44-csFCur-kEgU8awapJzKnqDKgw","e":"AQAB","alg":"RS256","kid":"2011-04-29"}`

// TestKeysDoNotPrint prints keys in every way there is, also from within other values, and looks for their numbers.
func TestKeysDoNotPrint(t *testing.T) {
	t.Parallel()
	for _, alg := range mint.Algs() {
		k := generate(t, alg)
		text, err := k.PEM()
		if err != nil {
			t.Fatal(err)
		}
		type hidden struct{ key mint.Key }
		holder := struct {
			Key  mint.Key
			Ptr  *mint.Key
			deep hidden
			Map  map[string]mint.Key
		}{k, &k, hidden{k}, map[string]mint.Key{"a": k}}
		var all bytes.Buffer
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d"} {
			fmt.Fprintf(&all, verb+verb+verb+verb, k, &k, holder, []mint.Key{k})
			fmt.Fprintf(&all, verb, signer(t, k))
		}
		b, err := json.Marshal(holder)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(b)
		slog.New(slog.NewJSONHandler(&all, nil)).Info("key", "key", k, "holder", holder)
		slog.New(slog.NewTextHandler(&all, nil)).Info("key", "key", k, "holder", holder)
		fmt.Fprintln(&all, errors.Join(fmt.Errorf("x: %v", k)))
		for _, number := range numbers(t, text) {
			for _, spelled := range []string{hex.EncodeToString(number), strings.ToUpper(hex.EncodeToString(number)), b64(number), fmt.Sprint(number), decimal(number), string(number)} {
				if strings.Contains(all.String(), strings.Trim(spelled, "[]=")) {
					t.Errorf("%s: a private number is printed as %q", alg, spelled)
				}
			}
		}
		if strings.Contains(all.String(), "PRIVATE") || !strings.Contains(all.String(), k.ID()) {
			t.Errorf("%s: printed as %s", alg, all.String())
		}
	}
}

func TestUnknownAlgorithms(t *testing.T) {
	t.Parallel()
	if k, err := mint.Generate("HS256"); !errors.Is(err, mint.ErrKeyKind) || k.ID() != "" {
		t.Errorf("got %v, %v, want ErrKeyKind", k, err)
	}
	var zero mint.Key
	if _, err := zero.PEM(); !errors.Is(err, mint.ErrKeyMissing) || zero.Public().Key != nil {
		t.Errorf("the zero key: %v", err)
	}
}
