package main

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/lanyard-k8s/lanyard/certs"
	"github.com/lanyard-k8s/lanyard/exchange"
	"github.com/lanyard-k8s/lanyard/exchange/keys"
	"github.com/lanyard-k8s/lanyard/exchange/settings"
	"github.com/lanyard-k8s/lanyard/exchange/waiting"
	"github.com/lanyard-k8s/lanyard/internal/lifecycle"
	"github.com/lanyard-k8s/lanyard/internal/liveness"
	"github.com/lanyard-k8s/lanyard/internal/obs"
	"github.com/lanyard-k8s/lanyard/internal/tokenreview"
)

// parts are what serve puts together, in the order of their use.
type parts struct {
	flags   *flags
	cfg     settings.Settings
	log     logr.Logger
	audit   logr.Logger
	reg     *prometheus.Registry
	metrics *exchange.Metrics

	cluster  *rest.Config
	client   kubernetes.Interface
	metadata metadata.Interface

	shelf    keys.Shelf
	keeper   *keys.Keeper
	store    records
	storeUp  atomic.Bool
	room     *waiting.Room
	pods     *liveness.Pods
	reviewer *tokenreview.Reviewer
	reloader *certs.Reloader // nil without TLS
	desk     *exchange.Desk
	local    local // of the backend docker

	draining atomic.Bool
	tasks    []lifecycle.Task
	checks   []func() error
	closer   []func() error
}

// task enters a part that runs until its context ends.
func (p *parts) task(name string, run func(context.Context) error) {
	p.tasks = append(p.tasks, lifecycle.Task{Name: name, Run: run})
}

func (p *parts) check(f func() error) { p.checks = append(p.checks, f) }

var errDraining = errors.New("draining")

// ready is nil when requests can be answered. Neither the database nor the API server is asked: without them the public keys and the
// documents are served all the same, tokens that were issued go on being verified, and an exchange is told to come again.
func (p *parts) ready() error {
	if p.draining.Load() {
		return errDraining
	}
	for _, f := range p.checks {
		if err := f(); err != nil {
			return err
		}
	}
	return nil
}

// pages are what the metrics listener serves.
func (p *parts) pages() http.Handler {
	return obs.Handler(p.reg, func(*http.Request) error { return p.ready() })
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
