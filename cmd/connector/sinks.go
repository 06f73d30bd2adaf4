package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/lanyard-k8s/lanyard/connector"
	"github.com/lanyard-k8s/lanyard/connector/config"
	"github.com/lanyard-k8s/lanyard/connector/nodebinding"
	"github.com/lanyard-k8s/lanyard/connector/sink"
	"github.com/lanyard-k8s/lanyard/connector/sink/forward"
	"github.com/lanyard-k8s/lanyard/connector/sink/kubernetes"
	"github.com/lanyard-k8s/lanyard/connector/sink/log"
	"github.com/lanyard-k8s/lanyard/connector/sink/store"
	"github.com/lanyard-k8s/lanyard/connector/spool"
)

// openTimeout is what opening the store may take, the bringing up to date of its table included.
const openTimeout = 2 * time.Minute

// openSinks opens what is enabled. It comes after everything about authentication has been checked.
func (p *parts) openSinks(ctx context.Context) error {
	s := p.cfg.Settings.Sinks
	for _, open := range []struct {
		enabled bool
		open    func(context.Context) (sink.Sink, error)
	}{
		{s.Log.Enabled, p.openLog}, {s.Store.Enabled, p.openStore}, {s.Forward.Enabled, p.openForward}, {s.Kubernetes.Enabled, p.openKubernetes},
	} {
		if !open.enabled {
			continue
		}
		one, err := open.open(ctx)
		if err != nil {
			return err
		}
		p.sinks = append(p.sinks, one)
	}
	return nil
}

// openLog writes to standard output; the program's own log goes to standard error.
func (p *parts) openLog(context.Context) (sink.Sink, error) { return log.New(p.stdout) }

func (p *parts) openForward(context.Context) (sink.Sink, error) {
	f := p.cfg.Settings.Sinks.Forward
	s, err := forward.New(forward.Options{
		Socket: f.Socket, Address: f.Address, CAFile: f.CAFile, ServerName: f.ServerName, TokenFile: f.TokenFile,
	})
	if err != nil {
		return nil, err
	}
	p.closer = append(p.closer, s.Close)
	return s, nil
}

func (p *parts) openStore(ctx context.Context) (sink.Sink, error) {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	c, o := p.cfg.Settings.Sinks.Store, store.Options{Retention: p.cfg.Settings.Sinks.Store.Retention, Log: p.log.WithName("store")}
	var s *store.Store
	var err error
	if c.Driver == config.Postgres {
		s, err = store.OpenPostgres(ctx, c.DSNFile, o)
	} else {
		s, err = store.OpenSQLite(ctx, c.Path, o)
	}
	if err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	p.closer = append(p.closer, s.Close)
	p.task("store", s.Run)
	if p.cfg.Process.Role == nodebinding.Deployment {
		ping := &pinged{ping: s.Ping}
		p.task("store readiness", ping.run)
		p.need(ping.check)
	}
	return s, nil
}

// pinged knows whether somebody else answers, from asking once a second.
type pinged struct {
	ping func(context.Context) error
	err  atomic.Pointer[error]
}

func (g *pinged) run(ctx context.Context) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		once, cancel := context.WithTimeout(ctx, time.Second)
		err := g.ping(once)
		cancel()
		g.err.Store(&err)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// check is the last answer, in words that hold nothing of the cause: readiness is shown to whoever asks.
func (g *pinged) check() error {
	switch last := g.err.Load(); {
	case last == nil:
		return errors.New("the store has not been asked yet")
	case *last != nil:
		return errors.New("the store does not answer")
	default:
		return nil
	}
}

// openIntake puts the spool before the sinks, or nothing.
func (p *parts) openIntake(context.Context) error {
	s := p.cfg.Settings
	if !s.Spool.Enabled {
		direct, err := connector.NewDirect(p.sinks, p.cfg.Process.Role, s.Sinks.Timeout, p.metrics)
		if err != nil {
			return err
		}
		p.intake = direct
		p.task("sinks", func(ctx context.Context) error { return direct.Run(ctx, p.halfDrain()) })
		return nil
	}
	rules, mode := p.cfg.Rules(), p.cfg.Auth.Mode
	queue, err := spool.Open(spool.Options{
		Directory: s.Spool.Directory, Bytes: s.Spool.Bytes, Group: s.Spool.Group, RetryMost: s.Spool.RetryMost, Timeout: s.Sinks.Timeout,
		GiveUpAttempts: int(s.Spool.GiveUpAttempts), GiveUpAfter: s.Spool.GiveUpAfter, Batch: p.bounds(), Memory: s.Limits.InFlight / 2,
		Sinks: p.sinks, Decide: connector.Again(rules, mode), NodeUID: p.nodeUID, Hooks: p.metrics.SpoolHooks(), Log: p.log.WithName("spool"),
	})
	if err != nil {
		return fmt.Errorf("open spool: %w", err)
	}
	p.closer = append(p.closer, queue.Close)
	p.intake = queue
	names := make([]sink.Name, 0, len(p.sinks))
	for _, one := range p.sinks {
		names = append(names, one.Name())
	}
	if err := p.metrics.ObserveSpool(p.reg, queue.Stats, names...); err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	p.task("spool", func(ctx context.Context) error { return deliver(ctx, queue, min(p.halfDrain(), spoolDrain)) })
	return nil
}

// spoolDrain bounds what is delivered after the last batch was taken. What is left is on the disk.
const spoolDrain = 3 * time.Second

// deliver runs the spool until ctx ends and what was taken is delivered, or the time for that has passed.
func deliver(ctx context.Context, queue *spool.Spool, drain time.Duration) error {
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	done := make(chan error, 1)
	go func() { done <- queue.Run(running) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	last, cancel := context.WithTimeout(running, drain)
	defer cancel()
	_ = queue.Drain(last) // its error says that time is up
	stop()
	return <-done
}

// nodeUID is the UID of the node that the connector runs on, empty while it is not known.
func (p *parts) nodeUID() string {
	if p.nodes == nil || !p.nodes.Trusted(time.Now()) {
		return ""
	}
	return p.nodes.UID(p.cfg.Process.NodeName)
}

// openKubernetes opens the sink that writes node conditions. On a socket it stays behind the policy that keeps it to its own
// node; without that policy the connector does not go on.
func (p *parts) openKubernetes(context.Context) (sink.Sink, error) {
	k, node := p.cfg.Settings.Sinks.Kubernetes, p.cfg.Process.NodeName
	o := kubernetes.Options{
		Client: p.client, Foreign: k.ForeignConditions, Conditions: int(k.Conditions), Writes: int(k.Writes), Events: int(k.Events),
		Reporter: node, Log: p.log.WithName("kubernetes"),
	}
	onSocket := p.cfg.Process.Role == nodebinding.Socket
	if onSocket {
		o.OwnNode = node
	} else if host, err := os.Hostname(); err == nil {
		o.Reporter = host
	}
	s, err := kubernetes.New(o)
	if err != nil || !onSocket {
		return s, err
	}
	fence := connector.NewFence(p.client, node, p.log)
	p.once("fence", fence.Run)
	return fence.Around(s), nil
}
