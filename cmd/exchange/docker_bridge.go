package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"sync"
	"time"

	"github.com/lanyard-k8s/lanyard/dockerjob"
	"github.com/lanyard-k8s/lanyard/exchange"
	"github.com/lanyard-k8s/lanyard/exchange/settings"
	"github.com/lanyard-k8s/lanyard/internal/obs"
)

// How often the Engine is asked for the bridge's address: often until there is one, which containers need.
const (
	bridgeSoon  = time.Second
	bridgeLater = 15 * time.Second
	bridgeWait  = 10 * time.Second
	bridgeAsked = 5 * time.Second // for how long a submission waits to learn how it stands
)

// bridge serves on the address of the Docker bridge's gateway. The Engine knows it, and may be away at the start or come back with
// another; meanwhile the other addresses are served.
type bridge struct {
	p    *parts
	desk *exchange.Desk
	port string
	find func(context.Context) (netip.Addr, error)
	name func(address string) error // gives the certificate the address

	asked chan chan struct{} // whoever wants to know how it stands; closed when that is known

	stop func()
	told string

	mu    sync.Mutex
	at    netip.Addr    // what is served, or was last; run alone changes it, and reads it without the lock
	why   error         // nothing is served; nil otherwise
	ended chan struct{} // closed once it serves no more
}

// What users are told, whose text is not the cause's.
var (
	errNotAsked = errors.New("the address of the Docker bridge is not served yet; come again")
	errUnnamed  = errors.New("the certificate cannot be given the bridge's address; the exchange's log says why")
)

func newBridge(p *parts, desk *exchange.Desk, port string) *bridge {
	b := &bridge{p: p, desk: desk, port: port, why: errNotAsked, asked: make(chan chan struct{})}
	b.find = func(ctx context.Context) (netip.Addr, error) { return p.local.engine.Gateway(ctx, "bridge") }
	b.name = func(address string) error { return p.local.authority.Name(address) }
	return b
}

// openBridge makes the bridge's part. Where jobs reach the exchange there and nowhere else, none starts while it is not served, and the
// exchange is not ready unless that is for want of an Engine.
func (p *parts) openBridge(desk *exchange.Desk, port string) {
	b := newBridge(p, desk, port)
	if needsBridge(p.cfg.Docker) {
		p.local.bridge = b
		p.check(b.unready)
	}
	p.task("bridge", b.run)
}

// needsBridge says whether jobs' containers come by the bridge's address. They do unless they are told another one that is listened on.
func needsBridge(d settings.Docker) bool {
	base, err := containerURL(d)
	if err != nil {
		return true
	}
	u, err := url.Parse(base)
	if err != nil {
		return true
	}
	for _, address := range d.Listen {
		if host, _, err := net.SplitHostPort(address); err == nil && host != settings.BridgeHost && host == u.Hostname() {
			return false
		}
	}
	return true
}

// reached is the address at which containers reach the exchange, the zero one where they come by another than the bridge's. Where they do not
// reach it, it is looked at again, for the Engine may have come back just now.
func (p *parts) reached(ctx context.Context) (netip.Addr, error) {
	b := p.local.bridge
	if b == nil {
		return netip.Addr{}, nil
	}
	if at, err := b.served(); err == nil {
		return at, nil
	}
	ctx, cancel := context.WithTimeout(ctx, bridgeAsked)
	defer cancel()
	known := make(chan struct{})
	select {
	case b.asked <- known:
		select {
		case <-known:
		case <-ctx.Done():
		}
	case <-ctx.Done():
	}
	return b.served()
}

// served is the address that is served, or why none is, in words that are for everybody.
func (b *bridge) served() (netip.Addr, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	why := b.why
	if why == nil && !b.serves() {
		why = errNotAsked
	}
	switch {
	case why == nil:
		return b.at, nil
	case errors.Is(why, dockerjob.ErrEngine): // whose own words are for the log
		why = dockerjob.ErrEngine
	}
	return netip.Addr{}, fmt.Errorf("%w: %s", dockerjob.ErrUnreachable, why.Error())
}

// unready is served for the page /readyz. An Engine that is away is a metric of its own, and makes nobody unready who serves the keys.
func (b *bridge) unready() error {
	_, err := b.served()
	b.mu.Lock()
	defer b.mu.Unlock()
	if errors.Is(b.why, dockerjob.ErrEngine) {
		return nil
	}
	return err
}

func (b *bridge) note(why error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.why = why
}

func (b *bridge) run(ctx context.Context) error {
	var asked []chan struct{}
	for {
		wait := bridgeLater
		if err := b.follow(ctx); ctx.Err() == nil {
			b.tell(err)
		}
		for _, known := range asked {
			close(known)
		}
		asked = nil
		if !b.serves() {
			wait = bridgeSoon
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case known := <-b.asked:
			timer.Stop()
			asked = b.alsoAsked(known)
		case <-ctx.Done():
			timer.Stop()
			b.desk.Drain() // who is held is told to come again
			b.leave()
			return nil
		}
	}
}

// alsoAsked are all who ask at the moment: one look is enough for them.
func (b *bridge) alsoAsked(all ...chan struct{}) []chan struct{} {
	for {
		select {
		case known := <-b.asked:
			all = append(all, known)
		default:
			return all
		}
	}
}

// tell notes how it stands, and logs it when that has changed.
func (b *bridge) tell(err error) {
	log := b.p.log
	switch {
	case err == nil:
		b.note(nil)
		if b.told != "" {
			log.Info("the bridge's address is served: jobs reach the exchange", obs.KeyAddr, b.at.String())
		}
		b.told = ""
	case b.serves(): // at the address that it had
		b.note(nil)
		if b.told != err.Error() {
			log.Info("the bridge's address cannot be asked for: the last one is served", obs.KeyAddr, b.at.String(), "cause", err.Error())
		}
		b.told = err.Error()
	default:
		b.note(err)
		if b.told != err.Error() {
			log.Error(err, "the bridge's address is not served: jobs do not reach the exchange, and none is started")
		}
		b.told = err.Error()
	}
}

// follow serves where the bridge is now.
func (b *bridge) follow(ctx context.Context) error {
	ask, cancel := context.WithTimeout(ctx, bridgeWait)
	defer cancel()
	at, err := b.find(ask)
	if err != nil {
		return err
	}
	if at == b.at && b.serves() {
		return nil
	}
	if err := b.name(at.String()); err != nil {
		b.p.log.Error(err, "the certificate cannot be given the bridge's address")
		return errUnnamed
	}
	b.leave()
	l, err := net.Listen("tcp", net.JoinHostPort(at.String(), b.port))
	if err != nil {
		return fmt.Errorf("listen on the bridge: %w", err)
	}
	return b.serve(ctx, l, at)
}

func (b *bridge) serve(ctx context.Context, l net.Listener, at netip.Addr) error {
	run, err := exchange.Serve(b.p.metrics.Bound(l, perContainer()), exchange.NewServer(b.desk, b.p.localTLS(), b.p.cfg.Limits.Hold, b.p.log), b.p.cfg.Drain, nil, b.p.log)
	if err != nil {
		_ = l.Close()
		return err
	}
	on, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := run(on); err != nil {
			b.p.log.Error(err, "serving the bridge ended")
		}
	}()
	b.stop = cancel
	b.mu.Lock()
	defer b.mu.Unlock()
	b.at, b.ended = at, ended
	return nil
}

// serves says whether there is a server, and it has not ended by itself.
func (b *bridge) serves() bool {
	select {
	case <-b.ended:
		return false
	default:
		return b.ended != nil
	}
}

// leave ends the server, if there is one, and waits for it.
func (b *bridge) leave() {
	if b.stop != nil {
		b.note(errNotAsked)
		b.stop()
		<-b.ended
		b.stop = nil
	}
}
