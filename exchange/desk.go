package exchange

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/go-logr/logr"

	"github.com/lanyard-k8s/lanyard/delegation"
	"github.com/lanyard-k8s/lanyard/exchange/grant"
	"github.com/lanyard-k8s/lanyard/exchange/settings"
	"github.com/lanyard-k8s/lanyard/exchange/waiting"
	"github.com/lanyard-k8s/lanyard/internal/mint"
	"github.com/lanyard-k8s/lanyard/internal/tokenreview"
)

// Reviewer says whose a service account token is; *tokenreview.Reviewer does.
type Reviewer interface {
	Review(ctx context.Context, token string, from *tokenreview.Bucket) (tokenreview.Verdict, error)
	NewBucket() *tokenreview.Bucket
}

// Keys sign and are published; *keys.Keeper has them.
type Keys interface {
	Signer(now time.Time) (*mint.Signer, error)
	Lookup(id string, now time.Time) (mint.PublicKey, bool)
	JWKS(now time.Time) (mint.Rendered, error)
	MaxAge() time.Duration
}

// Room is where requests wait for a judgement; *waiting.Room is one.
type Room interface {
	Enter(row string) (*waiting.Seat, error)
}

// Options make a Desk. Everything but Audit and Now is needed.
type Options struct {
	Settings settings.Settings
	Reviewer Reviewer
	Store    delegation.Reader
	Keys     Keys
	Room     Room
	Metrics  *Metrics
	Log      logr.Logger
	// Audit gets one line for each token request, whatever else is logged; the zero value is Log.
	Audit logr.Logger
	// Now is the clock; nil is the real one.
	Now func() time.Time
}

// Desk answers everything but the admins. Make one with NewDesk; it is an http.Handler.
type Desk struct {
	rules    grant.Rules
	settings settings.Settings
	reviewer Reviewer
	store    delegation.Reader
	keys     Keys
	room     Room
	metrics  *Metrics
	log      logr.Logger
	audit    logr.Logger
	now      func() time.Time

	documents documents
	callers   *callers
	slots     chan struct{}   // of token requests
	closing   context.Context // ends when the process is told to stop: nobody is held any longer
	close     context.CancelFunc
}

// NewDesk returns a desk, or what is missing.
func NewDesk(o Options) (*Desk, error) {
	if o.Reviewer == nil || o.Store == nil || o.Keys == nil || o.Room == nil || o.Metrics == nil {
		return nil, errors.New("exchange: a reviewer, a store, keys, a waiting room and metrics are needed")
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Audit.GetSink() == nil {
		o.Audit = o.Log
	}
	docs, err := newDocuments(o.Settings)
	if err != nil {
		return nil, fmt.Errorf("write the discovery documents: %w", err)
	}
	who, err := newCallers(o.Reviewer, o.Settings.Review)
	if err != nil {
		return nil, err
	}
	d := &Desk{
		rules: o.Settings.Rules, settings: o.Settings, reviewer: o.Reviewer, store: o.Store, keys: o.Keys, room: o.Room,
		metrics: o.Metrics, log: o.Log, audit: o.Audit.WithName("audit"), now: o.Now,
		documents: docs, callers: who, slots: make(chan struct{}, o.Settings.Limits.Requests),
	}
	d.closing, d.close = context.WithCancel(context.Background())
	return d, nil
}

// Drain ends what is held: those requests are told to come again, to another replica or to the next process.
func (d *Desk) Drain() { d.close() }

// Close drains and ends what the desk does in the background.
func (d *Desk) Close() {
	d.close()
	d.callers.close()
}

// ServeHTTP finds the handler by the exact path. The callout's is found first and by its prefix, whatever stands below it: a
// ServeMux would answer "//" and ".." with a redirect, and a gateway would take that for a no or follow it.
func (d *Desk) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	defer d.recovered(w)
	if callout(r.URL.Path) {
		d.authenticate(w, r)
		return
	}
	d.route(w, r)
}

// recovered answers a panic with 500. What panicked is logged by its type alone: its text may hold anything.
func (d *Desk) recovered(w http.ResponseWriter) {
	what := recover()
	if what == nil {
		return
	}
	if what == http.ErrAbortHandler { //nolint:errorlint // net/http compares so too
		panic(what)
	}
	d.metrics.panics.Inc()
	d.log.Error(nil, "a request panicked", "type", fmt.Sprintf("%T", what))
	writeError(w, http.StatusInternalServerError, string(grant.ServerError), "the exchange failed")
}
