package certs

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"

	"github.com/lanyard-k8s/lanyard/test/timing"
)

// chained is a leaf and an intermediate whose certificate can be made anew with the same key, as an issuer is renewed.
type chained struct {
	root, middle *ecdsa.PrivateKey
	key, leaf    []byte // PEM
}

// newKey makes a key.
func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// issue signs a certificate, in DER.
func issue(t *testing.T, c, by *x509.Certificate, public *ecdsa.PrivateKey, with *ecdsa.PrivateKey) []byte {
	t.Helper()
	c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	der, err := x509.CreateCertificate(rand.Reader, c, by, &public.PublicKey, with)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

func authority(name string, serial int64) *x509.Certificate {
	return &x509.Certificate{SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true}
}

func newChained(t *testing.T) *chained {
	t.Helper()
	c := &chained{root: newKey(t), middle: newKey(t)}
	own := newKey(t)
	leaf := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"localhost"}}
	c.leaf = encodeCert(issue(t, leaf, authority("middle", 2), own, c.middle))
	key, err := x509.MarshalPKCS8PrivateKey(own)
	if err != nil {
		t.Fatal(err)
	}
	c.key = pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})
	return c
}

// write puts the leaf into a directory behind an intermediate with this serial number.
func (c *chained) write(t *testing.T, dir string, serial int64) {
	t.Helper()
	middle := issue(t, authority("middle", serial), authority("root", 1), c.middle, c.root)
	write(t, filepath.Join(dir, CertFile), string(append(slices.Clone(c.leaf), encodeCert(middle)...)))
	write(t, filepath.Join(dir, KeyFile), string(c.key))
}

// TestReloaderServesANewIntermediate under the leaf that it has already.
func TestReloaderServesANewIntermediate(t *testing.T) {
	t.Parallel()
	tests := map[string]func(cert, key string, interval time.Duration, log logr.Logger) (source, error){
		"where the kernel tells": watched,
		"where it looks itself": func(string, string, time.Duration, logr.Logger) (source, error) {
			return nil, syscall.EMFILE
		},
	}
	for name, watch := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			c := newChained(t)
			c.write(t, dir, 10)
			loaded := make(chan time.Time, 10)
			r, err := newReloader(dir, Options{Log: logr.Discard(), Interval: time.Hour, OnLoad: func(end time.Time) { loaded <- end }}, watch)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- r.Run(ctx) }()
			if got := intermediate(t, r); got != 10 {
				t.Fatalf("intermediate %d is served, want 10", got)
			}
			c.write(t, dir, 11)
			if err := r.watcher.ReadCertificate(); err != nil {
				t.Fatal(err)
			}
			r.adopt()
			if got := intermediate(t, r); got != 11 {
				t.Errorf("intermediate %d is served, want 11", got)
			}
			loads := len(loaded)
			if err := r.watcher.ReadCertificate(); err != nil {
				t.Fatal(err)
			}
			r.adopt()
			if len(loaded) != loads {
				t.Error("the same chain is loaded once more")
			}
			cancel()
			if err := timing.Next(t, time.Minute, "the reloader ends with its context", done); err != nil {
				t.Error(err)
			}
		})
	}
}

// intermediate is the serial number of the second certificate that is served.
func intermediate(t *testing.T, r *Reloader) int64 {
	t.Helper()
	pair, err := r.GetCertificate(nil)
	if err != nil || len(pair.Certificate) != 2 {
		t.Fatalf("want a pair with two certificates: %v", err)
	}
	c, err := x509.ParseCertificate(pair.Certificate[1])
	if err != nil {
		t.Fatal(err)
	}
	return c.SerialNumber.Int64()
}
