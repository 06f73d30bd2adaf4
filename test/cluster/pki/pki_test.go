package pki_test

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lanyard-k8s/lanyard/test/cluster/pki"
)

func TestIssue(t *testing.T) {
	t.Parallel()
	authority, err := pki.NewAuthority("test")
	if err != nil {
		t.Fatal(err)
	}
	other, err := pki.NewAuthority("test")
	if err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct {
		request pki.Request
		usage   x509.ExtKeyUsage
		host    string
	}{
		"a client's, with its groups": {
			request: pki.Request{User: "system:serviceaccount:a:b", Groups: []string{"one", "two"}},
			usage:   x509.ExtKeyUsageClientAuth,
		},
		"a server's, by name": {
			request: pki.Request{User: "server", Names: []string{"localhost"}},
			usage:   x509.ExtKeyUsageServerAuth, host: "localhost",
		},
		"a server's, by address": {
			request: pki.Request{User: "server", Addresses: []net.IP{net.IPv4(127, 0, 0, 1)}},
			usage:   x509.ExtKeyUsageServerAuth, host: "127.0.0.1",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pair, err := authority.Issue(tc.request)
			if err != nil {
				t.Fatal(err)
			}
			loaded, err := tls.X509KeyPair(pair.Cert, pair.Key)
			if err != nil {
				t.Fatal(err)
			}
			if loaded.Leaf.Subject.CommonName != tc.request.User {
				t.Errorf("the common name is %q", loaded.Leaf.Subject.CommonName)
			}
			if diff := cmp.Diff(tc.request.Groups, loaded.Leaf.Subject.Organization); diff != "" {
				t.Errorf("groups (-want +got):\n%s", diff)
			}
			if err := verify(loaded.Leaf, authority, tc.usage, tc.host); err != nil {
				t.Error(err)
			}
			if err := verify(loaded.Leaf, other, tc.usage, tc.host); err == nil {
				t.Error("another authority of the same name vouches for it, too")
			}
		})
	}
}

func verify(leaf *x509.Certificate, authority *pki.Authority, usage x509.ExtKeyUsage, host string) error {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority.Cert)
	_, err := leaf.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{usage}, DNSName: host})
	return err
}
