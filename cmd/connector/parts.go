package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/lanyard-k8s/lanyard/connector"
	"github.com/lanyard-k8s/lanyard/connector/config"
	"github.com/lanyard-k8s/lanyard/connector/nodebinding"
	"github.com/lanyard-k8s/lanyard/connector/sink"
	"github.com/lanyard-k8s/lanyard/internal/lifecycle"
	"github.com/lanyard-k8s/lanyard/internal/liveness"
	"github.com/lanyard-k8s/lanyard/internal/obs"
	"github.com/lanyard-k8s/lanyard/internal/tokenreview"
)

// parts are what serve puts together, in the order of their use.
type parts struct {
	flags   *flags
	cfg     config.Config
	log     logr.Logger
	reg     *prometheus.Registry
	metrics *connector.Metrics
	recent  *connector.Recent
	stdout  io.Writer

	cluster  *rest.Config // nil when nothing needs one
	client   kubernetes.Interface
	metadata metadata.Interface
	asking   metadata.Interface // without a limit of its own

	selfTest *connector.SelfTest // nil, like what follows, when node binding is off
	reviewer *tokenreview.Reviewer
	pods     *liveness.Pods
	nodes    *liveness.Nodes

	sinks  []sink.Sink
	intake connector.Intake
	desk   *connector.Desk

	tasks  []lifecycle.Task
	needs  []func() error // without which no batch can be taken
	checks []func() error // readiness, besides
	closer []func() error
}

// warn logs what is accepted and should be noticed.
func warn(log logr.Logger, c config.Config) {
	for _, w := range c.Auth.Warnings {
		log.Info(string(w), "warning", true)
	}
	if c.Process.Role == nodebinding.Deployment && c.Settings.Publishers == nil {
		log.Info("settings name no publishers: whoever can make pods anywhere may report about the nodes that they run on", "warning", true)
	}
}

// task enters a part that runs until its context ends.
func (p *parts) task(name string, run func(context.Context) error) {
	p.tasks = append(p.tasks, lifecycle.Task{Name: name, Run: run})
}

// once enters a part that ends by itself when all is well.
func (p *parts) once(name string, run func(context.Context) error) {
	p.task(name, func(ctx context.Context) error {
		if err := run(ctx); err != nil && ctx.Err() == nil {
			return err
		}
		<-ctx.Done()
		return nil
	})
}

func (p *parts) need(f func() error)  { p.needs = append(p.needs, f) }
func (p *parts) check(f func() error) { p.checks = append(p.checks, f) }

// able is nil when a batch that arrives can be taken. It must be quick: a deployment asks it for every batch.
func (p *parts) able() error { return first(p.needs) }

// ready is nil when batches arrive, too.
func (p *parts) ready() error {
	if err := p.able(); err != nil {
		return err
	}
	return first(p.checks)
}

func first(checks []func() error) error {
	for _, f := range checks {
		if err := f(); err != nil {
			return err
		}
	}
	return nil
}

// pages are what the metrics listener serves.
func (p *parts) pages() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /debug/violations", p.recent)
	mux.Handle("/", obs.Handler(p.reg, func(*http.Request) error { return p.ready() }))
	return mux
}

// close releases what is open, the last opened first.
func (p *parts) close() {
	var errs []error
	for i := len(p.closer) - 1; i >= 0; i-- {
		errs = append(errs, p.closer[i]())
	}
	if err := errors.Join(errs...); err != nil {
		p.log.Error(err, "closing")
	}
}

// halfDrain is what the server, and after it the intake, may take to come to an end.
func (p *parts) halfDrain() time.Duration { return p.cfg.Settings.Drain / 2 }
