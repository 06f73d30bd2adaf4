package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/lanyard-k8s/lanyard/certs"
)

// certify makes the authority and its certificate, and serves what it renews.
func (p *parts) certify(context.Context) error {
	d := p.cfg.Docker
	who, err := names(d)
	if err != nil {
		return err
	}
	dir := filepath.Join(d.StateDirectory, "tls")
	own, err := certs.OpenLocal(dir, p.log.WithName("certificates"), nil, who...)
	if err != nil {
		return err
	}
	p.local.authority = own
	p.task("authority", own.Run)
	p.flags.tlsCertDir = dir
	_, err = p.serverTLS()
	return err
}

// localTLS is the servers' side of it.
func (p *parts) localTLS() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: p.reloader.GetCertificate}
}

// tellCA writes the CA certificate beside the socket, for the users of the machine who verify tokens.
func (p *parts) tellCA() error {
	file := publicCA(p.cfg.Docker)
	err := os.WriteFile(file+".new", p.local.authority.CA(), 0o644)
	if err == nil {
		err = os.Chmod(file+".new", 0o644) // the umask has had its say
	}
	if err == nil {
		err = os.Rename(file+".new", file)
	}
	if err != nil {
		return fmt.Errorf("write the CA certificate: %w", err)
	}
	return nil
}

// keepCA writes it again when there is a second one.
func (p *parts) keepCA(ctx context.Context) error {
	tick := time.NewTicker(time.Hour)
	defer tick.Stop()
	told := string(p.local.authority.CA())
	for {
		select {
		case <-tick.C:
			if now := string(p.local.authority.CA()); now != told {
				p.log.Info("there is a new certificate authority, which signs in some months; new jobs are given it")
				if err := p.tellCA(); err != nil {
					p.log.Error(err, "the CA certificate is not told")
					continue
				}
				told = now
			}
		case <-ctx.Done():
			return nil
		}
	}
}
