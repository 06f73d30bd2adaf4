package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"time"
)

// certificateLine is the certificate that a server presents.
type certificateLine struct {
	Address string `json:"address"`
	Serial  string `json:"serial,omitempty"`
	Issuer  string `json:"issuer,omitempty"`
	From    string `json:"from,omitempty"`
	Error   string `json:"error,omitempty"`
}

// runCertificate shakes hands with a server, verifies its certificate against a CA file, which is read each time, and prints which
// one it is; with --again over and over.
func runCertificate(ctx context.Context, args []string, p printer) error {
	s := flags("certificate")
	address := s.String("address", "", "host:port")
	file := s.String("ca-file", "", "what the certificate is checked against")
	again := s.Duration("again", 0, "how often to shake hands again; 0 is once")
	if err := parse(s, args); err != nil {
		return err
	}
	failed := false
	err := until(ctx, *again, func() (bool, error) {
		line, err := shakeHands(ctx, *address, *file)
		if ctx.Err() != nil {
			return true, nil
		}
		if err != nil {
			line.Error, failed = err.Error(), true
		}
		p.print(line)
		return false, nil
	})
	if err == nil && failed {
		return exit(1)
	}
	return err
}

func shakeHands(ctx context.Context, address, file string) (certificateLine, error) {
	line := certificateLine{Address: address}
	pem, err := os.ReadFile(file)
	if err != nil {
		return line, fmt.Errorf("CA certificate: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return line, errors.New("CA certificate: the file holds none")
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return line, err
	}
	dialer := tls.Dialer{
		NetDialer: &net.Dialer{Timeout: 30 * time.Second},
		Config:    &tls.Config{RootCAs: roots, ServerName: host, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}},
	}
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return line, err
	}
	defer func() { _ = conn.Close() }()
	shown := conn.(*tls.Conn).ConnectionState().PeerCertificates[0] // a client always gets one
	line.Serial, line.Issuer, line.From = shown.SerialNumber.String(), shown.Issuer.CommonName, shown.NotBefore.UTC().Format(time.RFC3339)
	return line, nil
}
