package certs

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"

	"github.com/lanyard-k8s/lanyard/test/timing"
)

// clock is a time that tests move.
type clock struct{ at time.Time }

func (c *clock) now() time.Time { return c.at }

func openLocal(t *testing.T, dir string, c *clock, names ...string) *Local {
	t.Helper()
	l, err := OpenLocal(dir, logr.Discard(), c.now, names...)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// leafOf is the certificate in a directory.
func leafOf(t *testing.T, dir string) *x509.Certificate {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(dir, CertFile))
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(raw)
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// trusts says whether a client that was given ca accepts the present certificate for a name.
func trusts(t *testing.T, dir string, ca []byte, at time.Time, name string) bool {
	t.Helper()
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca) {
		t.Fatal("the CA holds no certificate")
	}
	_, err := leafOf(t, dir).Verify(x509.VerifyOptions{Roots: pool, DNSName: name, CurrentTime: at})
	return err == nil
}

func TestLocalIsKeptAcrossStarts(t *testing.T) {
	t.Parallel()
	dir, c := filepath.Join(t.TempDir(), "tls"), &clock{time.Now()}
	first := openLocal(t, dir, c, "127.0.0.1")
	leaf := leafOf(t, dir)
	second := openLocal(t, dir, c, "127.0.0.1")
	if !bytes.Equal(first.CA(), second.CA()) || !leafOf(t, dir).Equal(leaf) {
		t.Error("a second start makes another authority or certificate")
	}
	if err := second.Name("172.17.0.1"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"127.0.0.1", "172.17.0.1"} {
		if !trusts(t, dir, first.CA(), c.at, name) {
			t.Errorf("%s is not trusted with the CA of the first start", name)
		}
	}
	if trusts(t, dir, first.CA(), c.at, "172.17.0.2") {
		t.Error("another address is trusted")
	}
	for name, want := range map[string]os.FileMode{authoritiesFile: 0o600, KeyFile: 0o600, ".": 0o700 | os.ModeDir} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode() != want {
			t.Errorf("%s: %v %v", name, info.Mode(), err)
		}
	}
}

// TestLocalNeverLosesAClient walks through thirty years in steps of two weeks. A client that was started at any time in the last year
// still trusts the present certificate, and the certificate never has less than four weeks left after a renewal.
func TestLocalNeverLosesAClient(t *testing.T) {
	t.Parallel()
	const step, started = 14 * 24 * time.Hour, 26
	dir, c := filepath.Join(t.TempDir(), "tls"), &clock{time.Now()}
	l := openLocal(t, dir, c, "127.0.0.1")
	var bundles [][]byte
	leaves, most := map[string]bool{}, 0
	for range 30 * 26 {
		c.at = c.at.Add(step)
		if err := l.Renew(); err != nil {
			t.Fatal(err)
		}
		leaf := leafOf(t, dir)
		leaves[leaf.SerialNumber.String()] = true
		if left := leaf.NotAfter.Sub(c.at); left < 28*24*time.Hour {
			t.Fatalf("%s: the certificate has %s left", c.at, left)
		}
		bundles = append(bundles, l.CA())
		most = max(most, strings.Count(string(l.CA()), "BEGIN CERTIFICATE"))
		for i, ca := range bundles[max(0, len(bundles)-started):] {
			if i > 0 && bytes.Equal(ca, bundles[max(0, len(bundles)-started)+i-1]) {
				continue // the same as the one before
			}
			if !trusts(t, dir, ca, c.at, "127.0.0.1") {
				t.Fatalf("%s: a client of the last year does not trust the certificate", c.at)
			}
		}
	}
	if most != 2 || len(leaves) < 30*4 || len(leaves) > 30*8 {
		t.Errorf("at most %d authorities at once, %d certificates in thirty years", most, len(leaves))
	}
}

// TestWhatLocalRenewsIsServed: by the Reloader, without a restart.
func TestWhatLocalRenewsIsServed(t *testing.T) {
	t.Parallel()
	dir, c := filepath.Join(t.TempDir(), "tls"), &clock{time.Now()}
	l := openLocal(t, dir, c, "127.0.0.1")
	r, loaded := start(t, dir)
	timing.Next(t, time.Minute, "the first pair is loaded", loaded)
	if err := l.Name("172.17.0.1"); err != nil {
		t.Fatal(err)
	}
	timing.Next(t, time.Minute, "the pair with the further name is loaded", loaded)
	if err := served(t, r).VerifyHostname("172.17.0.1"); err != nil {
		t.Error(err)
	}
	c.at = c.at.Add(leafLife - leafLife/3 + time.Hour)
	if err := l.Renew(); err != nil {
		t.Fatal(err)
	}
	if at := timing.Next(t, time.Minute, "the renewed pair is loaded", loaded); at.Sub(c.at) < leafLife-time.Hour {
		t.Errorf("what is served after the renewal has %s left", at.Sub(c.at))
	}
}

func TestLocalRefusesWhatIsNotSafe(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		spoil func(t *testing.T, dir string)
		want  string
	}{
		"a directory that others may enter": {func(t *testing.T, dir string) { chmod(t, dir, 0o750) }, "must be a directory of mode 0700"},
		"a damaged authority": {func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, authoritiesFile), "nonsense")
		}, "it is damaged"},
		"an empty authority": {func(t *testing.T, dir string) { write(t, filepath.Join(dir, authoritiesFile), "") }, "it is empty"},
		"a key of another certificate": {func(t *testing.T, dir string) {
			other := filepath.Join(t.TempDir(), "other")
			openLocal(t, other, &clock{time.Now()}, "x")
			mine, theirs := read(t, filepath.Join(dir, authoritiesFile)), read(t, filepath.Join(other, authoritiesFile))
			write(t, filepath.Join(dir, authoritiesFile), mine[:strings.Index(mine, "-----BEGIN PRIVATE")]+theirs[strings.Index(theirs, "-----BEGIN PRIVATE"):])
		}, "it is damaged"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, c := filepath.Join(t.TempDir(), "tls"), &clock{time.Now()}
			openLocal(t, dir, c, "127.0.0.1")
			tc.spoil(t, dir)
			if _, err := OpenLocal(dir, logr.Discard(), c.now, "127.0.0.1"); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(t.TempDir(), link); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenLocal(link, logr.Discard(), nil, "x"); !errors.Is(err, ErrUnsafe) {
		t.Errorf("a symbolic link: %v", err)
	}
}

func TestLocalMakesALostCertificateAgain(t *testing.T) {
	t.Parallel()
	for _, file := range []string{CertFile, KeyFile, CAFile} {
		dir, c := filepath.Join(t.TempDir(), "tls"), &clock{time.Now()}
		l := openLocal(t, dir, c, "127.0.0.1")
		write(t, filepath.Join(dir, file), "nonsense")
		if err := l.Renew(); err != nil {
			t.Fatal(err)
		}
		if !trusts(t, dir, l.CA(), c.at, "127.0.0.1") {
			t.Errorf("%s: not made again", file)
		}
	}
}

func chmod(t *testing.T, path string, mode os.FileMode) {
	t.Helper()
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}
