// Package pki makes the certificates and keys of a test control plane. They last a week and are worth nothing elsewhere.
package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"time"
)

const (
	// lifetime is long enough for the longest test and for a demonstration left running for days.
	lifetime = 7 * 24 * time.Hour
	// skew lets a certificate be valid for a machine whose clock was set back.
	skew = time.Hour
)

// Pair is a certificate with its private key, both in PEM.
type Pair struct {
	Cert []byte
	Key  []byte
}

// Write writes the pair as path.crt and path.key.
func (p Pair) Write(path string) error {
	if err := os.WriteFile(path+".crt", p.Cert, 0o600); err != nil {
		return fmt.Errorf("writing a certificate: %w", err)
	}
	if err := os.WriteFile(path+".key", p.Key, 0o600); err != nil {
		return fmt.Errorf("writing a private key: %w", err)
	}
	return nil
}

// Authority signs certificates.
type Authority struct {
	Pair

	cert *x509.Certificate
	key  crypto.Signer
}

// Request is what a certificate is to say: a server's when it has addresses, a client's otherwise.
type Request struct {
	// User is the common name, which is the user name to an API server.
	User string
	// Groups are the organisations, which are the user's groups.
	Groups []string
	// Names and Addresses are what a server is reached by.
	Names     []string
	Addresses []net.IP
}

// NewAuthority makes a certificate authority.
func NewAuthority(name string) (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making the key of authority %s: %w", name, err)
	}
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: name},
		NotBefore:             time.Now().Add(-skew),
		NotAfter:              time.Now().Add(lifetime),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign | x509.KeyUsageDigitalSignature,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	pair, cert, err := sign(template, template, key, key)
	if err != nil {
		return nil, fmt.Errorf("signing the certificate of authority %s: %w", name, err)
	}
	return &Authority{Pair: pair, cert: cert, key: key}, nil
}

// Issue makes a key and signs a certificate for it.
func (a *Authority) Issue(r Request) (Pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, fmt.Errorf("making a key for %q: %w", r.User, err)
	}
	usage := x509.ExtKeyUsageClientAuth
	if len(r.Names)+len(r.Addresses) > 0 {
		usage = x509.ExtKeyUsageServerAuth
	}
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: r.User, Organization: r.Groups},
		NotBefore:   time.Now().Add(-skew),
		NotAfter:    time.Now().Add(lifetime),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{usage},
		DNSNames:    r.Names,
		IPAddresses: r.Addresses,
	}
	pair, _, err := sign(template, a.cert, key, a.key)
	if err != nil {
		return Pair{}, fmt.Errorf("signing a certificate for %q: %w", r.User, err)
	}
	return pair, nil
}

// TokenKey makes the key that an API server signs service account tokens with, private and public part in PEM. It is RSA,
// as nearly every cluster's is, so that tokens have the length and the algorithm that programs meet in the field.
func TokenKey() (private, public []byte, err error) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, nil, fmt.Errorf("making the key for tokens: %w", err)
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return nil, nil, fmt.Errorf("encoding the public key for tokens: %w", err)
	}
	return encode("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(key)), encode("PUBLIC KEY", der), nil
}

// sign signs the template and encodes what came out. The serial number is left to crypto/x509, which draws it at random.
func sign(template, parent *x509.Certificate, key, signer crypto.Signer) (Pair, *x509.Certificate, error) {
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		return Pair{}, nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return Pair{}, nil, err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return Pair{}, nil, err
	}
	return Pair{Cert: encode("CERTIFICATE", der), Key: encode("PRIVATE KEY", private)}, cert, nil
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
