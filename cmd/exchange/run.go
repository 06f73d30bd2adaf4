package main

import (
	"context"
	"fmt"
	"io"

	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/lanyard-k8s/lanyard/exchange"
	"github.com/lanyard-k8s/lanyard/exchange/settings"
	"github.com/lanyard-k8s/lanyard/internal/lifecycle"
	"github.com/lanyard-k8s/lanyard/internal/obs"
)

// serve is the exchange from top to bottom: read, open, identify, answer, run. What is started last is stopped first.
func serve(ctx context.Context, f *flags, stderr io.Writer) error {
	log, err := obs.NewLogger(stderr, f.logLevel)
	if err != nil {
		return err
	}
	audit := log
	if f.logLevel == "error" { // who asked and what came of it is written all the same
		if audit, err = obs.NewLogger(stderr, "info"); err != nil {
			return err
		}
	}
	ctrl.SetLogger(log) // certwatcher logs through it
	klog.SetLogger(log) // and client-go through this: the leader's election, the watches
	cfg, err := settings.Load(f.config)
	if err != nil {
		return err
	}
	if err := f.fit(cfg.Docker.Enabled); err != nil {
		return err
	}
	log.Info("configuration loaded", obs.KeyConfig, cfg)
	reg := obs.NewRegistry()
	metrics, err := exchange.NewMetrics(reg)
	if err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	p := &parts{flags: f, cfg: cfg, log: log, audit: audit, reg: reg, metrics: metrics}
	defer p.close()
	steps := p.onKubernetes()
	if cfg.Docker.Enabled {
		steps = p.onDocker()
	}
	for _, prepare := range steps {
		if err := prepare(ctx); err != nil {
			return err
		}
	}
	scrapes, err := obs.Listen(f.metricsListen, reg)
	if err != nil {
		return err
	}
	metricsTask := lifecycle.Task{Name: "metrics", Run: obs.Serve(scrapes, p.pages(), log)}
	return lifecycle.Run(ctx, log, append([]lifecycle.Task{metricsTask}, p.tasks...)...)
}

// onKubernetes is the exchange for a cluster.
func (p *parts) onKubernetes() []func(context.Context) error {
	return []func(context.Context) error{
		p.findCluster, p.openKeys, p.openStore, p.judgePods, p.identifyCallers, p.openDesk, p.openAdmin, p.observe,
	}
}
