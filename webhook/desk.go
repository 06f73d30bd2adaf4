package webhook

import (
	"errors"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"

	"github.com/lanyard-k8s/lanyard/internal/places"
	"github.com/lanyard-k8s/lanyard/mutate"
	"github.com/lanyard-k8s/lanyard/webhook/settings"
)

// pathSelfCheck answers the readiness check's call, through TLS and the same listener as reviews.
const pathSelfCheck = "/selfcheck"

// Desk is the http.Handler of all webhook paths.
type Desk struct {
	rules     mutate.Rules
	version   string
	rooms     Rooms
	stamped   map[mutate.GroupKind]bool
	resources map[string]string
	hooks     map[string]hook
	gate      *gate
	metrics   *Metrics
	log       logr.Logger
	draining  atomic.Bool
	scratch   sync.Pool
}

// Options are what a Desk works with. All of them are required.
type Options struct {
	Settings settings.Settings
	Rooms    Rooms
	Metrics  *Metrics
	Log      logr.Logger
}

// New checks that nothing is missing.
func New(o Options) (*Desk, error) {
	if o.Rooms.Pod == nil || o.Rooms.Stamp == nil || o.Rooms.Verify == nil || o.Rooms.Template == nil {
		return nil, errors.New("webhook: a room is missing")
	}
	if o.Metrics == nil {
		return nil, errors.New("webhook: metrics are missing")
	}
	if l := o.Settings.Limits; l.MaxBodyBytes <= 0 || l.MaxInFlight <= 0 || l.MaxInFlightBytes <= 0 {
		return nil, errors.New("webhook: limits are missing")
	}
	version, err := ruleVersion(o.Settings.Rules)
	if err != nil {
		return nil, err
	}
	d := &Desk{
		rules: o.Settings.Rules, version: version, rooms: o.Rooms, metrics: o.Metrics, log: o.Log, gate: newGate(o.Settings.Limits),
		stamped: map[mutate.GroupKind]bool{}, hooks: map[string]hook{}, resources: knownResources(&o.Settings),
		scratch: sync.Pool{New: func() any { return &buffers{out: make([]byte, 0, 8<<10), patch: make([]byte, 0, 8<<10)} }},
	}
	for _, gk := range o.Settings.Stamped() {
		d.stamped[gk] = true
	}
	for _, h := range hooks() {
		d.hooks[h.path] = h
	}
	return d, nil
}

// knownResources are the values that the resource label may take: what is registered by default and the configured kinds.
func knownResources(s *settings.Settings) map[string]string {
	out := map[string]string{}
	for _, r := range []string{
		podResource, podResource + "/" + ephemeral, "jobs", "cronjobs", "deployments", "statefulsets", "daemonsets", "replicasets",
	} {
		out[r] = r
	}
	for _, k := range s.JobKinds {
		out[k.Resource] = k.Resource
	}
	for _, gk := range s.Stamped() {
		plural := strings.ToLower(gk.Kind) + "s"
		out[plural] = plural
	}
	return out
}

// How many connections there may be. An API server keeps up to 25 that it does not use for each webhook that is registered, for 90 s,
// and those of three may come by one address (a konnectivity agent, a NAT). One over the bound would be a review that fails. An idle one
// takes some 36 KiB.
const (
	idlePerHook = 25
	apiServers  = 3
	leastPerKey = 512
	keys        = 2 // in all there are as many as for so many addresses
)

// bounds are how many connections may be open: one address has as many as there are calls, and those that API servers keep.
func (d *Desk) bounds() places.Bounds {
	per := max(leastPerKey, int(d.gate.calls.most)+idlePerHook*len(d.hooks)*apiServers)
	return places.Bounds{Total: keys * per, PerKey: per}.Reserved()
}

// Bound is a listener for reviews that closes the connections that are too many: each takes memory, and none needs a credential.
func (d *Desk) Bound(l net.Listener) net.Listener {
	return places.New(d.bounds(), places.Of, func(open int) { d.metrics.open.Set(float64(open)) }, d.metrics.turnedAway.Inc).Bound(l)
}

// Drain makes every further answer close its connection, so that clients come back over a new one, which leads elsewhere
// once the endpoints have gone. Requests are still answered.
func (d *Desk) Drain() { d.draining.Store(true) }

// ServeHTTP answers a review. Unknown paths are 404: no path means "everything".
func (d *Desk) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if d.draining.Load() {
		w.Header().Set("Connection", "close")
	}
	h, ok := d.hooks[r.URL.Path]
	switch {
	case ok:
		d.serve(w, r, h)
	case r.URL.Path == pathSelfCheck:
		w.WriteHeader(http.StatusNoContent)
	default:
		writeStatus(w, &status{code: http.StatusNotFound, message: "Lanyard serves no webhook on this path"})
	}
}

// serve takes one request from its headers to its answer. Panics of the rooms are contained further down, in judge.
func (d *Desk) serve(w http.ResponseWriter, r *http.Request, h hook) {
	start := time.Now()
	var rv review
	body, v := d.take(w, r)
	if v == nil {
		defer d.gate.recycle(body)
		defer d.gate.leave(len(*body))
		d.metrics.bytes.Observe(float64(len(*body)))
		d.metrics.inFlight.Inc()
		defer d.metrics.inFlight.Dec()
		v = d.judge(h, *body, &rv)
	}
	if v.stage != "" {
		d.metrics.decode.WithLabelValues(v.stage).Inc()
	}
	d.send(w, &rv, v)
	d.record(h, &rv, v, time.Since(start))
}

// take reads the body and lets the request in. Without a body the verdict says why.
func (d *Desk) take(w http.ResponseWriter, r *http.Request) (*[]byte, *verdict) {
	if v := checkHeaders(w, r); v != nil {
		return nil, v
	}
	if d.gate.full() {
		return nil, overloaded(w)
	}
	body, err := d.gate.read(w, r)
	switch {
	case errors.Is(err, errBusy):
		return nil, overloaded(w)
	case errors.Is(err, errTooLarge):
		return nil, unreadable(http.StatusRequestEntityTooLarge, stageBody, err)
	case err != nil:
		return nil, unreadable(http.StatusRequestTimeout, stageBody, err)
	}
	if !d.gate.enter(len(*body)) {
		d.gate.recycle(body)
		return nil, overloaded(w)
	}
	return body, nil
}

// buffers are the pooled memory of one answer.
type buffers struct{ out, patch []byte }

// send writes the verdict: a review when there is a uid to answer to, else an HTTP error.
func (d *Desk) send(w http.ResponseWriter, rv *review, v *verdict) {
	if v.failed != nil {
		writeStatus(w, v.failed)
		return
	}
	b := d.scratch.Get().(*buffers)
	a := answer{
		apiVersion: rv.apiVersion, uid: rv.uid, status: v.refused, patch: v.decision.Patch,
		warnings: v.warnings, annotations: v.annotations,
	}
	b.out, b.patch = appendAnswer(b.out[:0], &a, b.patch)
	writeJSON(w, http.StatusOK, b.out)
	if cap(b.out) <= keepBytes && cap(b.patch) <= keepBytes {
		d.scratch.Put(b)
	}
}
