package certs

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/lanyard-k8s/lanyard/internal/private"
)

// How long a local authority and its leaves live. A leaf is renewed when a third of its life is left. A new authority is told to
// clients when a third of the old one's life is left and signs when a sixth is, so that whoever was started in between trusts both.
const (
	authorityLife = 10 * 365 * 24 * time.Hour
	leafLife      = 90 * 24 * time.Hour
	renewEvery    = time.Hour
)

// authoritiesFile holds the authorities with their keys, the oldest first.
const authoritiesFile = "authorities.pem"

// ErrUnsafe is a directory that somebody else could read keys in.
var ErrUnsafe = errors.New("the certificates are not kept safely")

// Local is a certificate authority of one machine's own and its serving certificate, in a directory of mode 0700. It serves where
// there is no cert-manager: clients are handed its CA certificate by whoever starts them. A Reloader follows what it writes.
type Local struct {
	dir string
	log logr.Logger
	now func() time.Time

	mu          sync.Mutex
	names       []string
	authorities []*Authority
}

// OpenLocal makes or reads the authority in a directory, and sees to it that there is a certificate for the names. now is the clock, time.Now when nil.
func OpenLocal(dir string, log logr.Logger, now func() time.Time, names ...string) (*Local, error) {
	if now == nil {
		now = time.Now
	}
	l := &Local{dir: dir, log: log, now: now, names: slices.Clone(names)}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the certificates' directory: %w", err)
	}
	if err := ownAlone(dir); err != nil {
		return nil, err
	}
	raw, err := os.ReadFile(filepath.Join(dir, authoritiesFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read the authority: %w", err)
	}
	if err == nil {
		if l.authorities, err = readAuthorities(raw); err != nil {
			return nil, fmt.Errorf("read the authority: %s: %w; without the file a new one is made, which running jobs do not trust", filepath.Join(dir, authoritiesFile), err)
		}
	}
	return l, l.Renew()
}

// ownAlone demands a real directory of ours that nobody else may enter.
func ownAlone(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return fmt.Errorf("look at the certificates' directory: %w", err)
	}
	if private.Directory(info) != "" {
		return fmt.Errorf("%w: %s must be a directory of mode 0700 that belongs to this program's user", ErrUnsafe, dir)
	}
	return nil
}

// CA is what clients trust: the certificates of the authorities, in PEM. There are two of them around the time of a change.
func (l *Local) CA() []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.bundle()
}

func (l *Local) bundle() []byte {
	var all []byte
	for _, a := range l.authorities {
		all = append(all, a.pem...)
	}
	return all
}

// Name adds names to the certificate, if it lacks them.
func (l *Local) Name(names ...string) error {
	l.mu.Lock()
	for _, n := range names {
		if !slices.Contains(l.names, n) {
			l.names = append(l.names, n)
		}
	}
	l.mu.Unlock()
	return l.Renew()
}

// Run renews in time until ctx ends. What cannot be renewed now is tried again; there are weeks for it.
func (l *Local) Run(ctx context.Context) error {
	tick := time.NewTicker(renewEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if err := l.Renew(); err != nil {
				l.log.Error(err, "the serving certificate cannot be renewed")
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// Renew makes what is missing or due. Without a need nothing is written.
func (l *Local) Renew() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	next, err := rolled(l.authorities, now)
	if err != nil {
		return err
	}
	if !slices.Equal(next, l.authorities) {
		if err := keepAuthorities(l.dir, next); err != nil {
			return fmt.Errorf("keep the authority: %w", err)
		}
		l.authorities = next
		l.log.Info("certificate authority renewed", "authorities", len(next), "notAfter", next[len(next)-1].cert.NotAfter)
	}
	signs := signing(l.authorities, now)
	if !l.due(signs, now) {
		return nil
	}
	life := min(leafLife, signs.cert.NotAfter.Sub(now))
	pair, err := signs.Issue(now, life, l.names...)
	if err != nil {
		return err
	}
	pair.CA = l.bundle()
	return pair.Write(l.dir)
}

// rolled is the authorities as they should be: without those that have ended, and with a new one when the newest has a third left.
func rolled(old []*Authority, now time.Time) ([]*Authority, error) {
	var next []*Authority
	for _, a := range old {
		if now.Before(a.cert.NotAfter) {
			next = append(next, a)
		}
	}
	if n := len(next); n > 0 && next[n-1].cert.NotAfter.Sub(now) > authorityLife/3 {
		return next, nil
	}
	a, err := NewAuthority("Lanyard on this machine", now, authorityLife)
	if err != nil {
		return nil, err
	}
	return append(next, a), nil
}

// signing is the oldest authority that has a sixth of its life left: the one that most clients know.
func signing(authorities []*Authority, now time.Time) *Authority {
	for _, a := range authorities {
		if a.cert.NotAfter.Sub(now) > authorityLife/6 {
			return a
		}
	}
	return authorities[len(authorities)-1]
}

// due says whether the certificate in the directory is not the one that should be there.
func (l *Local) due(signs *Authority, now time.Time) bool {
	pair, err := tls.LoadX509KeyPair(filepath.Join(l.dir, CertFile), filepath.Join(l.dir, KeyFile))
	ca, caErr := os.ReadFile(filepath.Join(l.dir, CAFile))
	if err != nil || caErr != nil || !bytes.Equal(ca, l.bundle()) {
		return true
	}
	leaf := pair.Leaf
	if leaf.CheckSignatureFrom(signs.cert) != nil || leaf.NotAfter.Sub(now) < leafLife/3 || now.Before(leaf.NotBefore) {
		return true
	}
	return slices.ContainsFunc(l.names, func(name string) bool { return leaf.VerifyHostname(name) != nil })
}

// keepAuthorities writes the file whole or not at all: its loss would cost every running job its trust.
func keepAuthorities(dir string, authorities []*Authority) error {
	var text []byte
	for _, a := range authorities {
		key, err := x509.MarshalPKCS8PrivateKey(a.key)
		if err != nil {
			return fmt.Errorf("encode the key: %w", err)
		}
		text = append(append(text, a.pem...), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})...)
	}
	f, err := os.CreateTemp(dir, ".new-*") // mode 0600
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), filepath.Join(dir, authoritiesFile))
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// readAuthorities reads certificates, each followed by its key. The text of a fault holds none of the file.
func readAuthorities(raw []byte) ([]*Authority, error) {
	var found []*Authority
	for len(bytes.TrimSpace(raw)) > 0 {
		var cert, key *pem.Block
		cert, raw = pem.Decode(raw)
		key, raw = pem.Decode(raw)
		if cert == nil || key == nil || cert.Type != "CERTIFICATE" || key.Type != "PRIVATE KEY" {
			return nil, errors.New("it is damaged")
		}
		c, err := x509.ParseCertificate(cert.Bytes)
		k, keyErr := x509.ParsePKCS8PrivateKey(key.Bytes)
		private, ok := k.(*ecdsa.PrivateKey)
		if err != nil || keyErr != nil || !ok || !private.PublicKey.Equal(c.PublicKey) || !c.IsCA {
			return nil, errors.New("it is damaged")
		}
		found = append(found, &Authority{cert: c, key: private, pem: encodeCert(cert.Bytes)})
	}
	if len(found) == 0 {
		return nil, errors.New("it is empty")
	}
	return found, nil
}
