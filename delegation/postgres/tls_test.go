package postgres_test

import (
	"context"
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
	"strings"
	"testing"
	"time"

	"github.com/lanyard-k8s/lanyard/delegation"
	"github.com/lanyard-k8s/lanyard/delegation/postgres"
)

func TestOnlyAProvenServerIsTrusted(t *testing.T) {
	t.Parallel()
	for conn, safe := range map[string]bool{
		"postgres://u:hunter2@db.example/l?sslmode=verify-full":                  true,
		"host=db.example user=u password=hunter2 sslmode=verify-full":            true,
		"host=/run/postgresql user=u password=hunter2":                           true,
		"host=/run/postgresql user=u password=hunter2 sslmode=disable":           true,
		"postgres://u:hunter2@a.example,b.example/l?sslmode=verify-full":         true,
		"postgres://u:hunter2@db.example/l":                                      false,
		"postgres://u:hunter2@db.example/l?sslmode=disable":                      false,
		"postgres://u:hunter2@db.example/l?sslmode=allow":                        false,
		"postgres://u:hunter2@db.example/l?sslmode=prefer":                       false,
		"postgres://u:hunter2@db.example/l?sslmode=require":                      false,
		"postgres://u:hunter2@db.example/l?sslmode=verify-ca":                    false,
		"postgres://u:hunter2@127.0.0.1/l?sslmode=disable":                       false,
		"host=/run/postgresql,db.example user=u password=hunter2":                false,
		"host=/run/postgresql,db.example user=u password=hunter2 sslmode=prefer": false,
		"postgres://u:hunter2@db.example:hunter2/l":                              false,
		"password=hunter2 'hunter2":                                              false,
		"host=@lanyard user=u password=hunter2 sslmode=disable":                  false, // a TCP host to pgx
		"host=@lanyard user=u password=hunter2":                                  false,
	} {
		s, err := postgres.Open(canceled(t), postgres.Options{Conn: conn})
		if err == nil {
			_ = s.Close()
		}
		if errors.Is(err, delegation.ErrUnsafe) == safe {
			t.Errorf("%s: error is %v", conn, err)
		}
		if text := fmt.Sprintf("%v %+v %#v", err, postgres.Options{Conn: conn}, &postgres.Options{Conn: conn}); strings.Contains(text, "hunter2") {
			t.Errorf("%s: the password is printed: %s", conn, text)
		}
	}
}

// TestTLS talks to a real server over TLS: with the right authority and name, with another authority, under another name.
func TestTLS(t *testing.T) {
	t.Parallel()
	own := &server{port: freePort(t)}
	t.Cleanup(own.stop)
	own.prepare = func(dir string) []string {
		certificate(t, dir)
		return []string{
			"-c", "ssl=on", "-c", "ssl_cert_file=" + filepath.Join(dir, "tls.crt"), "-c", "ssl_key_file=" + filepath.Join(dir, "tls.key"),
			"-c", "listen_addresses=127.0.0.1",
		}
	}
	name := own.database(t)
	other := t.TempDir()
	certificate(t, other)
	over := func(host, authority string) postgres.Options {
		return postgres.Options{Conn: fmt.Sprintf("host=%s port=%d user=lanyard dbname=%s sslmode=verify-full sslrootcert=%s", host, own.port, name, authority)}
	}
	if err := postgres.Migrate(t.Context(), over("127.0.0.1", filepath.Join(own.dir, "tls.crt"))); err != nil {
		t.Fatalf("with the right authority: %v", err)
	}
	if err := open(t, over("127.0.0.1", filepath.Join(own.dir, "tls.crt"))).Close(); err != nil {
		t.Error(err)
	}
	for what, o := range map[string]postgres.Options{
		"another authority": over("127.0.0.1", filepath.Join(other, "tls.crt")),
		"another name":      over("localhost", filepath.Join(own.dir, "tls.crt")),
	} {
		if s, err := postgres.Open(t.Context(), o); !errors.Is(err, delegation.ErrUnavailable) {
			t.Errorf("%s: got %v, %v, want ErrUnavailable", what, s, err)
		}
	}
}

// certificate writes a self-made certificate for 127.0.0.1, and its key as the server wants it.
func certificate(t *testing.T, dir string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{"tls.crt": {Type: "CERTIFICATE", Bytes: cert}, "tls.key": {Type: "PRIVATE KEY", Bytes: secret}} {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
		if cred := unprivileged(); cred != nil && name == "tls.key" {
			if err := os.Chown(file, int(cred.Uid), int(cred.Gid)); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Chmod(file, map[string]os.FileMode{"tls.crt": 0o644, "tls.key": 0o600}[name]); err != nil {
			t.Fatal(err)
		}
	}
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port
}

func canceled(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}
