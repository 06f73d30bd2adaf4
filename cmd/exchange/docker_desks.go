package main

import (
	"context"
	"fmt"
	"net"

	"github.com/lanyard-k8s/lanyard/exchange"
	"github.com/lanyard-k8s/lanyard/exchange/settings"
)

// openLocalDesks makes a desk for each address, which tells its clients of that very address.
func (p *parts) openLocalDesks(context.Context) error {
	for _, address := range p.cfg.Docker.Listen {
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			return fmt.Errorf("docker.listen: %w", err)
		}
		told := host
		if host == settings.BridgeHost {
			told = containerHost
		}
		desk, err := p.newDesk("https://" + net.JoinHostPort(told, port))
		if err != nil {
			return err
		}
		if host == settings.BridgeHost {
			p.openBridge(desk, port)
			continue
		}
		l, err := net.Listen("tcp", address)
		if err != nil {
			return fmt.Errorf("docker.listen: %w", err)
		}
		serve, err := p.serving(l, desk)
		if err != nil {
			return err
		}
		p.task("exchange on "+address, serve)
	}
	return nil
}

func (p *parts) newDesk(base string) (*exchange.Desk, error) {
	cfg := p.cfg
	if cfg.Docker.BaseURL == "" {
		cfg.BaseURL = base
	}
	desk, err := exchange.NewDesk(exchange.Options{
		Settings: cfg, Reviewer: noPods{}, Store: p.store, Keys: p.keeper, Room: p.room, Metrics: p.metrics, Log: p.log, Audit: p.audit,
	})
	if err != nil {
		return nil, err
	}
	p.closer = append(p.closer, func() error { desk.Close(); return nil })
	return desk, nil
}

func (p *parts) serving(l net.Listener, desk *exchange.Desk) (func(context.Context) error, error) {
	each := perContainer()
	if exchange.Loopback(l.Addr()) {
		each = shared()
	}
	serve, err := exchange.Serve(p.metrics.Bound(l, each), exchange.NewServer(desk, p.localTLS(), p.cfg.Limits.Hold, p.log), p.cfg.Drain, desk.Drain, p.log)
	if err != nil {
		_ = l.Close()
		return nil, err
	}
	return serve, nil
}
