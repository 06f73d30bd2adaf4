// Package certs is where serving certificates come from and how servers keep them fresh: a self-signed authority for the
// demo and the tests, one that is kept for a machine without cert-manager, and a reloader for a directory that either of them or
// cert-manager's Secret fills. What Lanyard asks of cert-manager itself is in certs/certmanager.
package certs

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// The files of a certificate directory, named as Kubernetes' TLS Secrets name their keys.
const (
	CAFile   = "ca.crt"
	CertFile = "tls.crt"
	KeyFile  = "tls.key"
)

// backdate starts a certificate's life a little early, for clocks that run behind.
const backdate = 5 * time.Minute

// Authority is a self-signed certificate authority with a key on P-256. For the demo and the tests its key lives in memory only; a
// Local keeps it.
type Authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

// NewAuthority makes an authority that is valid from now for the given time.
func NewAuthority(name string, now time.Time, life time.Duration) (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make authority key: %w", err)
	}
	serial, err := newSerial()
	if err != nil {
		return nil, err
	}
	tmpl := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name},
		NotBefore: now.Add(-backdate), NotAfter: now.Add(life),
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature, BasicConstraintsValid: true, IsCA: true, MaxPathLenZero: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		return nil, fmt.Errorf("sign authority: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("read authority back: %w", err)
	}
	return &Authority{cert: cert, key: key, pem: encodeCert(der)}, nil
}

// CA is the authority's certificate in PEM, as caBundle wants it.
func (a *Authority) CA() []byte { return a.pem }

// Pair is a leaf with its key and its authority's certificate, all in PEM.
type Pair struct {
	CA   []byte
	Cert []byte
	Key  []byte
}

// Issue signs a server certificate for DNS names and IP addresses, valid from now for the given time.
func (a *Authority) Issue(now time.Time, life time.Duration, names ...string) (*Pair, error) {
	if len(names) == 0 {
		return nil, errors.New("issue certificate: no name given")
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make leaf key: %w", err)
	}
	serial, err := newSerial()
	if err != nil {
		return nil, err
	}
	tmpl := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: names[0]},
		NotBefore: now.Add(-backdate), NotAfter: now.Add(life),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, n := range names {
		if ip := net.ParseIP(n); ip != nil {
			tmpl.IPAddresses = append(tmpl.IPAddresses, ip)
		} else {
			tmpl.DNSNames = append(tmpl.DNSNames, n)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, a.cert, &key.PublicKey, a.key)
	if err != nil {
		return nil, fmt.Errorf("sign leaf: %w", err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode leaf key: %w", err)
	}
	return &Pair{CA: a.pem, Cert: encodeCert(der), Key: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})}, nil
}

// SelfSigned makes a fresh authority and one leaf, both valid for a year from now.
func SelfSigned(now time.Time, names ...string) (*Pair, error) {
	const year = 365 * 24 * time.Hour
	a, err := NewAuthority("lanyard-demo-ca", now, year)
	if err != nil {
		return nil, err
	}
	return a.Issue(now, year, names...)
}

// Write puts ca.crt, tls.crt and tls.key (mode 0600) into dir. Each file is written under another name and moved, so that
// a server that watches the directory never reads half a file.
func (p *Pair) Write(dir string) error {
	files := []struct {
		name string
		mode os.FileMode
		data []byte
	}{{CAFile, 0o644, p.CA}, {CertFile, 0o644, p.Cert}, {KeyFile, 0o600, p.Key}}
	for _, f := range files {
		if err := replaceFile(filepath.Join(dir, f.name), f.data, f.mode); err != nil {
			return fmt.Errorf("write %s: %w", f.name, err)
		}
	}
	return nil
}

func replaceFile(path string, data []byte, mode os.FileMode) error {
	tmp := path + ".new"
	if err := os.WriteFile(tmp, data, mode); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}

func newSerial() (*big.Int, error) {
	n, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("make serial number: %w", err)
	}
	return n, nil
}

func encodeCert(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}
