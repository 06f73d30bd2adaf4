//go:build unix

package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"net"
	"net/url"
	"os"
	"path/filepath"

	"github.com/lanyard-k8s/lanyard/test/cluster"
	"github.com/lanyard-k8s/lanyard/test/cluster/pki"
)

// Port is where a server listens that is reached by an address.
const Port = "5432"

// remote is how a server is reached from elsewhere.
type remote struct {
	address, password string
	authority         []byte
}

// access lets everybody in by the socket, whose folder is the server's, and others over TLS with a password.
const access = `
local   all all           trust
hostssl all all 0.0.0.0/0 scram-sha-256
`

// StartOn is Start of a server that is reached by an address of this machine's as well, as pods do: over TLS and with a password.
// A connection without TLS is refused.
func StartOn(ctx context.Context, cp *cluster.ControlPlane, address net.IP) (*Server, error) {
	return start(ctx, cp, address)
}

// prepareRemote makes what a server needs that is reached from elsewhere.
func (s *Server) prepareRemote(address net.IP, uid, gid int) error {
	authority, err := pki.NewAuthority("postgres")
	if err != nil {
		return err
	}
	pair, err := authority.Issue(pki.Request{User: "postgres", Addresses: []net.IP{address}})
	if err != nil {
		return err
	}
	if err := pair.Write(s.certificate()); err != nil {
		return err
	}
	hba := filepath.Join(s.data(), "pg_hba.conf")
	if err := os.WriteFile(hba, []byte(access), 0o600); err != nil {
		return err
	}
	if uid >= 0 {
		for _, file := range []string{s.certificate() + ".crt", s.certificate() + ".key", hba} {
			err = errors.Join(err, os.Chown(file, uid, gid))
		}
	}
	s.remote = &remote{address: address.String(), password: rand.Text(), authority: authority.Cert}
	return err
}

func (s *Server) certificate() string { return filepath.Join(s.dir, "server") }

// listening are the settings by which the server listens.
func (s *Server) listening() []string {
	if s.remote == nil {
		return []string{"-c", "listen_addresses="}
	}
	return []string{
		"-c", "listen_addresses=" + s.remote.address, "-c", "port=" + Port,
		"-c", "ssl=on", "-c", "ssl_cert_file=" + s.certificate() + ".crt", "-c", "ssl_key_file=" + s.certificate() + ".key",
	}
}

// setPassword gives the server's user its password.
func (s *Server) setPassword(ctx context.Context) error {
	if s.remote == nil {
		return nil
	}
	if err := s.Exec(ctx, "postgres", "ALTER ROLE lanyard PASSWORD '"+s.remote.password+"'"); err != nil {
		return errors.New("setting PostgreSQL's password: it was refused") // the statement, which the error quotes, holds it
	}
	return nil
}

// Authority is the certificate, in PEM, that the server's own is checked against.
func (s *Server) Authority() []byte { return s.remote.authority }

// Remote is the connection string of a database for who comes by the server's address and has the authority's certificate in a file.
func (s *Server) Remote(database, authorityFile string) string {
	u := url.URL{
		Scheme: "postgres", User: url.UserPassword("lanyard", s.remote.password), Host: net.JoinHostPort(s.remote.address, Port), Path: "/" + database,
		RawQuery: url.Values{"sslmode": {"verify-full"}, "sslrootcert": {authorityFile}}.Encode(),
	}
	return u.String()
}
