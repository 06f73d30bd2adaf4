package forward

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

// How long to wait for a connection, and between two attempts to make one.
const (
	dialTimeout = 2 * time.Second
	dialMost    = 5 * time.Second
)

// options are the same for both ways. A proxy of the environment is not used: it would be handed the token's connection.
func options(c credentials.TransportCredentials) []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithTransportCredentials(c),
		grpc.WithNoProxy(),
		grpc.WithDisableServiceConfig(),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: dialMost},
			MinConnectTimeout: dialTimeout,
		}),
		grpc.WithIdleTimeout(0),
	}
}

func dialSocket(path string) (*grpc.ClientConn, error) {
	to := func(ctx context.Context, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}
	conn, err := grpc.NewClient("passthrough:///localhost", append(options(insecure.NewCredentials()), grpc.WithContextDialer(to))...)
	if err != nil {
		return nil, fmt.Errorf("prepare the connection to %s: %w", path, err)
	}
	return conn, nil
}

func dialTLS(address string, v *verifier) (*grpc.ClientConn, error) {
	conn, err := grpc.NewClient("dns:///"+address, options(credentials.NewTLS(v.config()))...)
	if err != nil {
		return nil, fmt.Errorf("prepare the connection to %s: %w", address, err)
	}
	return conn, nil
}

// verifier checks the other side's certificate against the CA file as it is at that moment, since authorities are renewed while connectors
// run.
type verifier struct {
	caFile string
	name   string
}

// newVerifier refuses a CA file that is there and holds no certificate.
func newVerifier(o Options) (*verifier, error) {
	v := &verifier{caFile: o.CAFile, name: o.ServerName}
	if v.name == "" {
		host, _, err := net.SplitHostPort(o.Address)
		if err != nil {
			return nil, fmt.Errorf("forward sink: the address %q is not host:port", o.Address)
		}
		v.name = host
	}
	if _, err := v.roots(); err != nil {
		return nil, err
	}
	return v, nil
}

func (v *verifier) roots() (*x509.CertPool, error) {
	pem, err := os.ReadFile(v.caFile)
	if err != nil {
		return nil, fmt.Errorf("read the CA file: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("the CA file %s holds no certificate", v.caFile)
	}
	return pool, nil
}

// config leaves the check to verify, which does all that crypto/tls would do and takes the authorities afresh.
func (v *verifier) config() *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		ServerName:         v.name,
		InsecureSkipVerify: true, //nolint:gosec // VerifyConnection checks chain, time, use and name
		VerifyConnection:   v.verify,
	}
}

func (v *verifier) verify(cs tls.ConnectionState) error {
	if len(cs.PeerCertificates) == 0 {
		return errors.New("the other side shows no certificate")
	}
	roots, err := v.roots()
	if err != nil {
		return err
	}
	chain := x509.NewCertPool()
	for _, c := range cs.PeerCertificates[1:] {
		chain.AddCert(c)
	}
	_, err = cs.PeerCertificates[0].Verify(x509.VerifyOptions{
		DNSName: v.name, Roots: roots, Intermediates: chain, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	return err
}
