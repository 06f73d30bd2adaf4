package certs

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"go.uber.org/goleak"

	"github.com/lanyard-k8s/lanyard/test/timing"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestSelfSignedPairIsTrustedByItsAuthorityOnly(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	pair, err := SelfSigned(time.Now(), "lanyard-webhook.lanyard.svc", "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	if err := pair.Write(dir); err != nil {
		t.Fatal(err)
	}
	loaded, err := tls.LoadX509KeyPair(filepath.Join(dir, CertFile), filepath.Join(dir, KeyFile))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	ca, err := os.ReadFile(filepath.Join(dir, CAFile))
	if err != nil || !roots.AppendCertsFromPEM(ca) {
		t.Fatalf("authority: %v", err)
	}
	for _, name := range []string{"lanyard-webhook.lanyard.svc", "127.0.0.1"} {
		if _, err := loaded.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: name}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := loaded.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: "other.lanyard.svc"}); err == nil {
		t.Error("another name is trusted")
	}
	if loaded.Leaf.IsCA {
		t.Error("the leaf may sign")
	}
	if info, err := os.Stat(filepath.Join(dir, KeyFile)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("key: %v %v", info, err)
	}
}

// writePair writes a fresh pair that ends after life and returns its leaf.
func writePair(t *testing.T, dir string, now time.Time, life time.Duration) *x509.Certificate {
	t.Helper()
	a, err := NewAuthority("test", now, life)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := a.Issue(now, life, "localhost")
	if err != nil {
		t.Fatal(err)
	}
	if err := pair.Write(dir); err != nil {
		t.Fatal(err)
	}
	c, err := tls.X509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		t.Fatal(err)
	}
	return c.Leaf
}

// start runs a reloader for the test's duration. Each adopted expiry arrives on the channel.
func start(t *testing.T, dir string) (*Reloader, chan time.Time) {
	t.Helper()
	loaded := make(chan time.Time, 8)
	r, err := NewReloader(dir, Options{Log: logr.Discard(), Interval: 10 * time.Millisecond, OnLoad: func(at time.Time) { loaded <- at }})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	ctx := t.Context()
	go func() { done <- r.Run(ctx) }()
	t.Cleanup(func() { // runs after t.Context is cancelled
		if err := timing.Next(t, time.Minute, "the reloader ends with its context", done); err != nil {
			t.Error(err)
		}
	})
	return r, loaded
}

func served(t *testing.T, r *Reloader) *x509.Certificate {
	t.Helper()
	c, err := r.GetCertificate(nil)
	if err != nil {
		t.Fatal(err)
	}
	return c.Leaf
}

func TestReloaderFollowsTheFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := writePair(t, dir, time.Now(), time.Hour)
	r, loaded := start(t, dir)
	if at := timing.Next(t, time.Minute, "the first pair is loaded", loaded); !at.Equal(first.NotAfter) {
		t.Errorf("first expiry %v", at)
	}
	second := writePair(t, dir, time.Now(), 2*time.Hour)
	if at := timing.Next(t, time.Minute, "the second pair is loaded", loaded); !at.Equal(second.NotAfter) || !served(t, r).Equal(second) {
		t.Errorf("second expiry %v", at)
	}
	if err := r.Check(); err != nil {
		t.Error(err)
	}
}

func TestReloaderKeepsTheOldPair(t *testing.T) {
	t.Parallel()
	tests := map[string]func(t *testing.T, dir string){
		"when the new one is not PEM": func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, CertFile), "nonsense")
		},
		"when the key belongs to another certificate": func(t *testing.T, dir string) {
			other := t.TempDir()
			writePair(t, other, time.Now(), time.Hour)
			key, err := os.ReadFile(filepath.Join(other, KeyFile))
			if err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(dir, KeyFile), string(key))
		},
		"when the files are gone": func(t *testing.T, dir string) {
			if err := errors.Join(os.Remove(filepath.Join(dir, CertFile)), os.Remove(filepath.Join(dir, KeyFile))); err != nil {
				t.Fatal(err)
			}
		},
		"when the new one has already expired": func(t *testing.T, dir string) {
			writePair(t, dir, time.Now().Add(-2*time.Hour), time.Hour)
		},
	}
	for name, spoil := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			old := writePair(t, dir, time.Now(), time.Hour)
			r, loaded := start(t, dir)
			timing.Next(t, time.Minute, "the first pair is loaded", loaded)
			spoil(t, dir)
			// What the watcher would read at its next look is read now, so that nothing waits for the clock.
			_ = r.watcher.ReadCertificate()
			r.adopt()
			if !served(t, r).Equal(old) {
				t.Error("the old pair is gone")
			}
			next := writePair(t, dir, time.Now(), 3*time.Hour)
			for at := range loaded {
				if at.Equal(next.NotAfter) {
					break
				}
			}
			if !served(t, r).Equal(next) {
				t.Error("the good pair that came later is not served")
			}
		})
	}
}

func TestReloaderRefusesAnEmptyDirectory(t *testing.T) {
	t.Parallel()
	if _, err := NewReloader(t.TempDir(), Options{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

func TestExpiredPairIsNotReady(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writePair(t, dir, time.Now(), time.Hour)
	r, err := NewReloader(dir, Options{Log: logr.Discard(), Now: func() time.Time { return time.Now().Add(2 * time.Hour) }})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Run(canceled(t)) }()
	if err := r.Check(); err == nil {
		t.Error("an expired certificate is ready")
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// canceled lets a reloader that was never run close its watch.
func canceled(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}
