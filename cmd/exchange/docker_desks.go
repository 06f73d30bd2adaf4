package main

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/lanyard-k8s/lanyard/exchange"
	"github.com/lanyard-k8s/lanyard/exchange/settings"
)

// How often the Engine is asked for the bridge's address: often until there is one, which containers need.
const (
	bridgeSoon  = time.Second
	bridgeLater = 15 * time.Second
	bridgeWait  = 10 * time.Second
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
			b := &bridge{p: p, desk: desk, port: port}
			p.task("bridge", b.run)
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
	each := placesPerContainer
	if exchange.Loopback(l.Addr()) {
		each = 0
	}
	serve, err := exchange.Serve(newPlaces(l, placesInAll, each), exchange.NewServer(desk, p.localTLS(), p.cfg.Limits.Hold, p.log), p.cfg.Drain, desk.Drain, p.log)
	if err != nil {
		_ = l.Close()
		return nil, err
	}
	return serve, nil
}

// bridge serves on the address of the Docker bridge's gateway. The Engine knows it, and may be away at the start or come back with
// another; meanwhile the other addresses are served.
type bridge struct {
	p    *parts
	desk *exchange.Desk
	port string

	at    netip.Addr
	stop  func()
	ended chan struct{} // closed once it serves no more
	told  string
}

func (b *bridge) run(ctx context.Context) error {
	for {
		wait := bridgeLater
		if err := b.follow(ctx); err != nil && ctx.Err() == nil {
			if b.told != err.Error() {
				b.p.log.Info("the bridge's address is not served yet: containers do not reach the exchange", "cause", err.Error())
			}
			b.told = err.Error()
		} else {
			b.told = ""
		}
		if !b.serves() {
			wait = bridgeSoon
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			b.desk.Drain() // who is held is told to come again
			b.leave()
			return nil
		}
	}
}

// follow serves where the bridge is now.
func (b *bridge) follow(ctx context.Context) error {
	ask, cancel := context.WithTimeout(ctx, bridgeWait)
	defer cancel()
	at, err := b.p.local.engine.Gateway(ask, "bridge")
	if err != nil {
		return err
	}
	if at == b.at && b.serves() {
		return nil
	}
	if err := b.p.local.authority.Name(at.String()); err != nil {
		return err
	}
	b.leave()
	l, err := net.Listen("tcp", net.JoinHostPort(at.String(), b.port))
	if err != nil {
		return fmt.Errorf("listen on the bridge: %w", err)
	}
	return b.serve(ctx, l, at)
}

func (b *bridge) serve(ctx context.Context, l net.Listener, at netip.Addr) error {
	run, err := exchange.Serve(newPlaces(l, placesInAll, placesPerContainer), exchange.NewServer(b.desk, b.p.localTLS(), b.p.cfg.Limits.Hold, b.p.log), b.p.cfg.Drain, nil, b.p.log)
	if err != nil {
		_ = l.Close()
		return err
	}
	on, cancel := context.WithCancel(context.WithoutCancel(ctx))
	b.ended = make(chan struct{})
	go func() {
		defer close(b.ended)
		if err := run(on); err != nil {
			b.p.log.Error(err, "serving the bridge ended")
		}
	}()
	b.at, b.stop = at, cancel
	return nil
}

// serves says whether there is a server, and it has not ended by itself.
func (b *bridge) serves() bool {
	if b.stop == nil {
		return false
	}
	select {
	case <-b.ended:
		return false
	default:
		return true
	}
}

// leave ends the server, if there is one, and waits for it.
func (b *bridge) leave() {
	if b.stop != nil {
		b.stop()
		<-b.ended
		b.stop = nil
	}
}
