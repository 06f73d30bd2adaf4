package main

import (
	"context"
	"fmt"
	"io"
	"net"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/lanyard-k8s/lanyard/certs"
	"github.com/lanyard-k8s/lanyard/internal/lifecycle"
	"github.com/lanyard-k8s/lanyard/internal/memory"
	"github.com/lanyard-k8s/lanyard/internal/obs"
	"github.com/lanyard-k8s/lanyard/webhook"
	"github.com/lanyard-k8s/lanyard/webhook/settings"
)

// serve is the server from top to bottom: read, load, listen, run.
func serve(ctx context.Context, f *flags, stderr io.Writer) error {
	log, err := obs.NewLogger(stderr, f.logLevel)
	if err != nil {
		return err
	}
	ctrl.SetLogger(log) // certwatcher and manager.Server log through it
	cfg, err := settings.Load(f.config)
	if err != nil {
		return fmt.Errorf("%s: %w", f.config, err)
	}
	log.Info("configuration loaded", obs.KeyConfig, cfg)
	// Without it the heap may grow to twice of what is in use, or to the container's limit and beyond it, before it is collected.
	memory.Stay(cfg.Limits.Memory())
	reg := obs.NewRegistry()
	metrics, err := webhook.NewMetrics(reg)
	if err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	reloader, err := certs.NewReloader(f.tlsCertDir, certs.Options{Log: log, OnLoad: metrics.CertificateLoaded})
	if err != nil {
		return err
	}
	desk, err := webhook.New(webhook.Options{Settings: cfg, Rooms: rooms(), Metrics: metrics, Log: log})
	if err != nil {
		return err
	}
	reviews, err := net.Listen("tcp", f.listen)
	if err != nil {
		return fmt.Errorf("listen for reviews: %w", err)
	}
	ready := webhook.NewReadiness(desk, reloader, reviews.Addr().String())
	scrapes, err := obs.Listen(f.metricsListen, reg)
	if err != nil {
		return err
	}
	server := &webhook.Server{Desk: desk, Certs: reloader, Listener: desk.Bound(reviews), DrainDelay: f.drainDelay, Log: log}
	return lifecycle.Run(ctx, log,
		lifecycle.Task{Name: "certificates", Run: reloader.Run},
		lifecycle.Task{Name: "metrics", Run: obs.Serve(scrapes, obs.Handler(reg, ready.Check), log)},
		lifecycle.Task{Name: "webhook", Run: server.Run},
	)
}
