package main

import (
	"context"
	"fmt"
	"io"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/lanyard-k8s/lanyard/connector"
	"github.com/lanyard-k8s/lanyard/connector/config"
	"github.com/lanyard-k8s/lanyard/internal/lifecycle"
	"github.com/lanyard-k8s/lanyard/internal/obs"
)

// serve is the connector from top to bottom: read, identify, deliver, listen, run. What is started last is stopped first.
func serve(ctx context.Context, f *flags, stdout, stderr io.Writer) error {
	log, err := obs.NewLogger(stderr, f.logLevel)
	if err != nil {
		return err
	}
	ctrl.SetLogger(log) // certwatcher logs through it
	cfg, err := config.Load(f.process(), f.config, f.settings)
	if err != nil {
		return err
	}
	log.Info("configuration loaded", obs.KeyConfig, cfg)
	warn(log, cfg)
	reg := obs.NewRegistry()
	metrics, err := connector.NewMetrics(reg)
	if err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	p := &parts{flags: f, cfg: cfg, log: log, reg: reg, metrics: metrics, recent: connector.NewRecent(), stdout: stdout}
	defer p.close()
	for _, prepare := range []func(context.Context) error{
		p.findCluster, p.identifyCallers, p.openSinks, p.openIntake, p.openDesk,
	} {
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
