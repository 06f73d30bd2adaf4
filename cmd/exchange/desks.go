package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"

	"github.com/lanyard-k8s/lanyard/certs"
	"github.com/lanyard-k8s/lanyard/exchange"
	"github.com/lanyard-k8s/lanyard/internal/lifecycle"
	"github.com/lanyard-k8s/lanyard/internal/places"
	"github.com/lanyard-k8s/lanyard/internal/tokenreview"
)

// serverTLS loads the certificate, or is nil where none is given.
func (p *parts) serverTLS() (*tls.Config, error) {
	if p.flags.tlsCertDir == "" {
		return nil, nil
	}
	if p.reloader == nil {
		r, err := certs.NewReloader(p.flags.tlsCertDir, certs.Options{Log: p.log, OnLoad: p.metrics.CertificateLoaded})
		if err != nil {
			return nil, err
		}
		p.reloader = r
		p.check(r.Check)
		p.task("certificates", r.Run)
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: p.reloader.GetCertificate}, nil
}

// openDesk makes the desk and its listener.
func (p *parts) openDesk(context.Context) error {
	var err error
	p.desk, err = exchange.NewDesk(exchange.Options{
		Settings: p.cfg, Reviewer: p.reviewer, Store: p.store, Keys: p.keeper, Room: p.room, Metrics: p.metrics, Log: p.log, Audit: p.audit,
	})
	if err != nil {
		return err
	}
	p.closer = append(p.closer, func() error { p.desk.Close(); return nil })
	certificates, err := p.serverTLS()
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", p.flags.listen)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	serve, err := exchange.Serve(p.metrics.Bound(l, places.Share(placesInAll)), exchange.NewServer(p.desk, certificates, p.cfg.Limits.Hold, p.log), p.cfg.Drain, p.desk.Drain, p.log)
	if err != nil {
		_ = l.Close()
		return err
	}
	p.task("exchange", func(ctx context.Context) error {
		late, release := lifecycle.Delay(ctx, p.flags.drainDelay, func() { p.draining.Store(true) })
		defer release()
		return serve(late)
	})
	return nil
}

// openAdmin makes the admins' listener: plain on loopback, which a port-forward leads to, and TLS anywhere else.
func (p *parts) openAdmin(context.Context) error {
	if !p.cfg.Admin.Enabled || p.flags.adminListen == "" {
		return nil
	}
	backend, err := tokenreview.NewAPIServer(p.cluster)
	if err != nil {
		return err
	}
	reviewer, err := tokenreview.NewReviewer(p.reviewOptions(p.cfg.Admin.Audience, backend))
	if err != nil {
		return err
	}
	p.closer = append(p.closer, func() error { reviewer.Close(); return nil })
	admin, err := exchange.NewAdmin(exchange.AdminOptions{
		Reviewer: reviewer, Authorizer: exchange.AccessReview{API: p.client.AuthorizationV1().SubjectAccessReviews()},
		Records: p.store, Metrics: p.metrics, Log: p.log, Audit: p.audit, Revoked: p.rememberMark,
	})
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", p.flags.adminListen)
	if err != nil {
		return fmt.Errorf("listen for admins: %w", err)
	}
	var certificates *tls.Config
	if !exchange.Loopback(l.Addr()) {
		if certificates, err = p.serverTLS(); err != nil {
			return err
		}
	}
	serve, err := exchange.Serve(p.metrics.Bound(l, places.Share(placesForAdmins)), exchange.NewServer(admin, certificates, 0, p.log), p.cfg.Drain, nil, p.log)
	if err != nil {
		_ = l.Close()
		return err
	}
	p.task("admin", serve)
	return nil
}

// observe registers what is asked when somebody scrapes.
func (p *parts) observe(context.Context) error {
	gauges := exchange.Gauges{
		Waiting: p.room.Taken, Cached: func() int { return 0 }, Down: func() bool { return false }, Ready: func() bool { return p.ready() == nil },
		StoreUp: p.storeUp.Load, Keys: p.keeper.StatesNow, KeyAge: p.keeper.Age, KeyEvery: p.cfg.Keys.Timing.Every,
	}
	if p.reviewer != nil {
		gauges.Cached, gauges.Down = p.reviewer.Size, p.reviewer.Down
	}
	if err := p.metrics.Observe(p.reg, gauges); err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	return nil
}
