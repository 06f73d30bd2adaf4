package client_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	healtheventv1 "github.com/lanyard-k8s/lanyard/api/healthevent/v1"
	"github.com/lanyard-k8s/lanyard/client"
)

// authority makes a CA and what it issues to this machine.
func authority(t *testing.T) (ca []byte, leaf *tls.Certificate) {
	t.Helper()
	root := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	der, err := x509.CreateCertificate(rand.Reader, root, root, key.Public(), key)
	must(t, err)
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	issued, err := x509.CreateCertificate(rand.Reader, template, root, own.Public(), key)
	must(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), &tls.Certificate{Certificate: [][]byte{issued}, PrivateKey: own}
}

// front is a listener whose server's certificate can be replaced, and the connections broken off, while it serves.
type front struct {
	net.Listener
	mu    sync.Mutex
	leaf  *tls.Certificate
	conns []net.Conn
}

func listen(t *testing.T) *front {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	return &front{Listener: l}
}

// Accept keeps the connection in mind.
func (f *front) Accept() (net.Conn, error) {
	c, err := f.Listener.Accept()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.conns = append(f.conns, c)
	return c, err
}

func (f *front) config() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.leaf, nil
	}}
}

// shows has new connections see another certificate, and ends the old ones.
func (f *front) shows(leaf *tls.Certificate) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.leaf = leaf
	for _, c := range f.conns {
		if c != nil {
			_ = c.Close()
		}
	}
	f.conns = nil
}

func write(t *testing.T, file string, content []byte) {
	t.Helper()
	must(t, os.WriteFile(file, content, 0o600))
}

// TestAPublisherOutlivesItsCA: the file was read when the publisher was made, and never again.
func TestAPublisherOutlivesItsCA(t *testing.T) {
	t.Parallel()
	oldCA, oldLeaf := authority(t)
	newCA, newLeaf := authority(t)
	f, d, file := listen(t), &desk{}, filepath.Join(t.TempDir(), "ca.crt")
	f.shows(oldLeaf)
	write(t, file, oldCA)
	s := grpc.NewServer(grpc.Creds(credentials.NewTLS(f.config())))
	healtheventv1.RegisterPlatformConnectorServer(s, d)
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(f) }()
	t.Cleanup(func() { s.Stop(); <-done })
	retried := make(chan error, 1)
	p := d.publisher(t, func(o *client.Options) {
		*o = client.Options{Target: f.Addr().String(), CAFile: file, FirstPause: time.Millisecond, MostPause: 50 * time.Millisecond, Retrying: func(err error) {
			select {
			case retried <- err:
			default:
			}
		}}
	})
	publish := func(message string) <-chan error {
		end := make(chan error, 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		go func() { defer cancel(); end <- p.Publish(ctx, batch(message)) }()
		return end
	}
	must(t, <-publish("by the old CA"))
	f.shows(newLeaf)
	end := publish("by the new CA")
	for err := error(nil); err == nil || !strings.Contains(err.Error(), "unknown authority"); {
		select {
		case err = <-retried:
		case err = <-end:
			t.Fatalf("published before the file was replaced, or given up: %v", err)
		}
	}
	write(t, file, newCA)
	must(t, <-end)
	write(t, file, []byte("not a certificate"))
	f.shows(newLeaf)
	must(t, <-publish("by what the file held before"))
	if _, _, took := d.seen(); fmt.Sprint(took) != "[by the old CA by the new CA by what the file held before]" {
		t.Errorf("the connector took %q", took)
	}
}
