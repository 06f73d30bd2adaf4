package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"

	"github.com/lanyard-k8s/lanyard/api/healthevent/weight"
	"github.com/lanyard-k8s/lanyard/certs"
	"github.com/lanyard-k8s/lanyard/connector"
	"github.com/lanyard-k8s/lanyard/connector/nodebinding"
)

// openDesk makes the desk and the server of the role, which is the last task.
func (p *parts) openDesk(context.Context) error {
	s := p.cfg.Settings
	o := connector.Options{
		Rules: p.cfg.Rules(), Mode: p.cfg.Auth.Mode, Intake: p.intake, Ready: p.able, OverridesNeedToken: s.OverridesNeedToken,
		NodeLocalOnly: len(p.sinks) == 1 && s.Sinks.Forward.Enabled, Timeout: s.Limits.Request,
		Metrics: p.metrics, Recent: p.recent, Log: p.log,
	}
	server := connector.ServerOptions{
		Limits: connector.Limits{
			MessageBytes: int(s.Limits.MessageBytes), HeaderBytes: uint32(s.Limits.HeaderBytes), Streams: uint32(s.Limits.Streams),
			Connections: s.Limits.Connections, ConnectionAge: s.Limits.ConnectionAge, Request: s.Limits.Request,
			PerUser: s.Socket.ConnectionsPerUser, InFlight: s.Limits.InFlight, Batch: p.bounds(),
		},
		Drain: p.halfDrain(), Metrics: p.metrics, Log: p.log,
	}
	if p.reviewer != nil {
		o.Reviewer, o.Nodes, server.NewBucket = p.reviewer, p.nodes, p.reviewer.NewBucket
	}
	var err error
	if p.desk, err = connector.NewDesk(o); err != nil {
		return err
	}
	server.Desk = p.desk
	if p.cfg.Process.Role == nodebinding.Socket {
		return p.serveSocket(server)
	}
	return p.serveTCP(server)
}

// bounds are what one batch may hold, when it is taken in and when it is read from the spool.
func (p *parts) bounds() weight.Bounds {
	return weight.Bounds{Events: int(p.cfg.Settings.Limits.Events), Parts: int(p.cfg.Settings.Limits.Parts)}
}

// serveSocket locks the path now and binds it when callers can be served: publishers take the file for a connector that is up.
func (p *parts) serveSocket(o connector.ServerOptions) error {
	s := p.cfg.Settings.Socket
	socket, err := connector.NewUnixSocket(p.flags.socket, s.Mode, int(s.Group))
	if err != nil {
		return err
	}
	p.closer = append(p.closer, socket.Close)
	server, err := connector.NewServer(o)
	if err != nil {
		return err
	}
	server.UseSocket(socket)
	p.check(server.Check)
	p.serveOnceStarted(server.RunSocket)
	return nil
}

// serveOnceStarted enters the server, which serves nobody before callers can be identified: whoever is told to stop before
// that never shows a socket.
func (p *parts) serveOnceStarted(run func(context.Context) error) {
	p.task("health events", func(ctx context.Context) error {
		p.awaitStart(ctx)
		if ctx.Err() != nil {
			return nil
		}
		return run(ctx)
	})
}

func (p *parts) serveTCP(o connector.ServerOptions) error {
	o.Limits.PerUser = 0 // callers have addresses here, and no user
	if p.flags.plaintext {
		p.log.Info("TLS is off (--insecure-plaintext-for-development): whoever is on the way reads every token", "warning", true)
	} else {
		reloader, err := certs.NewReloader(p.flags.tlsCertDir, certs.Options{Log: p.log, OnLoad: p.metrics.CertificateLoaded})
		if err != nil {
			return err
		}
		o.TLS = &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: reloader.GetCertificate}
		p.task("certificates", reloader.Run)
		p.check(reloader.Check)
	}
	server, err := connector.NewServer(o)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", p.flags.listen)
	if err != nil {
		return fmt.Errorf("listen for health events: %w", err)
	}
	p.check(server.Check)
	p.serveOnceStarted(func(ctx context.Context) error { return server.RunTCP(ctx, listener) })
	return nil
}
