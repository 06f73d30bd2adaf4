package dockerjob

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/lanyard-k8s/lanyard/delegation"
)

// Options are what a Backend works with. All but Reached, Clock and Log are needed.
type Options struct {
	Engine   *Engine
	Store    delegation.Store
	Settings Settings
	Metrics  *Metrics
	// Reached gives the address at which containers reach the exchange now, which is what the host name of Settings.BaseURL means in them, or
	// says, as an ErrUnreachable with the reason, that they do not: no job is started then. The zero address is what the Engine takes for
	// the machine ("host-gateway"), and so is no function.
	Reached func(context.Context) (netip.Addr, error)
	// Clock is time.Now, if nil.
	Clock func() time.Time
	// Log is silent, if it is the zero Logger.
	Log logr.Logger
}

// Backend runs jobs. Its methods may be called from several goroutines; Run must run for ended jobs to be noticed.
type Backend struct {
	engine  *Engine
	store   delegation.Store
	s       Settings
	metrics *Metrics
	now     func() time.Time
	log     logr.Logger
	random  io.Reader
	reach   func(context.Context) (netip.Addr, error)
	at      func(Step) error // nil but in tests: called after each step

	mu      sync.Mutex
	tasks   map[string]*task // by id: starting, running, and ended for as long as they are kept
	life    context.Context  // Run's, once containers and rows have been compared for the first time
	ready   error            // why it is not ready
	work    sync.WaitGroup   // what Run waits for
	closing bool
}

// errNotYet: containers and rows have not been compared since the start.
var errNotYet = fmt.Errorf("%w: containers and rows have not been compared yet", ErrEngine)

// New makes a backend, or says what is missing.
func New(o Options) (*Backend, error) {
	if o.Engine == nil || o.Store == nil || o.Metrics == nil {
		return nil, errors.New("dockerjob: an Engine, a Store and Metrics are needed")
	}
	s, err := o.Settings.filled()
	if err != nil {
		return nil, err
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Log.GetSink() == nil {
		o.Log = logr.Discard()
	}
	if o.Reached == nil {
		o.Reached = func(context.Context) (netip.Addr, error) { return netip.Addr{}, nil }
	}
	return &Backend{
		reach:  o.Reached,
		engine: o.Engine, store: o.Store, s: s, metrics: o.Metrics, now: o.Clock, log: o.Log, random: source(),
		tasks: map[string]*task{}, ready: errNotYet,
	}, nil
}

// Ready says why the backend takes no jobs, or nothing.
func (b *Backend) Ready() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ready
}

// List is the submitter's jobs, the newest first: those that have not ended, and those that did within Settings.Keep.
func (b *Backend) List(_ context.Context, subject string) ([]Job, error) {
	var jobs []Job
	for _, t := range b.of(subject) {
		jobs = append(jobs, t.view())
	}
	slices.SortFunc(jobs, func(x, y Job) int {
		return cmp.Or(y.Created.Compare(x.Created), cmp.Compare(x.ID, y.ID))
	})
	return jobs, nil
}

// Job is one of the submitter's jobs: ref is its ID, or "workspace/job/task", which means the one that has not ended, or the last one.
func (b *Backend) Job(_ context.Context, subject, ref string) (Job, error) {
	t, err := b.find(subject, ref)
	if err != nil {
		return Job{}, err
	}
	return t.view(), nil
}

// Wait returns once the job has ended and its identity is revoked.
func (b *Backend) Wait(ctx context.Context, subject, ref string) (Job, error) {
	t, err := b.find(subject, ref)
	if err != nil {
		return Job{}, err
	}
	return t.wait(ctx)
}

// maxGrace bounds how long a stopped job may go on.
const maxGrace = 5 * time.Minute

// Stop asks the job to end, ends it after the grace period, and returns once it has ended. Its identity lasts until then: what is
// left of its work may still be saved.
func (b *Backend) Stop(ctx context.Context, subject, ref string, grace time.Duration) (Job, error) {
	t, err := b.find(subject, ref)
	if err != nil {
		return Job{}, err
	}
	container := t.stop()
	if container != "" {
		grace = min(max(grace, 0), maxGrace)
		ctx, cancel := context.WithTimeout(ctx, grace+b.s.Timeout)
		defer cancel()
		if err := b.engine.stop(ctx, container, grace); err != nil && !errors.Is(err, errGone) {
			return Job{}, err
		}
		b.look(container)
	}
	return t.wait(ctx)
}

// of is all tasks of a submitter.
func (b *Backend) of(subject string) []*task {
	b.mu.Lock()
	defer b.mu.Unlock()
	var own []*task
	for _, t := range b.tasks {
		if t.subject == subject && subject != "" {
			own = append(own, t)
		}
	}
	return own
}

// find is the submitter's task that ref names. Another submitter's is as unknown as one that never was.
func (b *Backend) find(subject, ref string) (*task, error) {
	var named []*task
	for _, t := range b.of(subject) {
		if t.id == ref {
			return t, nil
		}
		if t.spec.Names() == ref {
			named = append(named, t)
		}
	}
	live := slices.DeleteFunc(slices.Clone(named), func(t *task) bool { return t.view().State == Ended })
	switch {
	case len(live) == 1:
		return live[0], nil
	case len(live) > 1:
		return nil, ErrAmbiguous
	case len(named) == 0:
		return nil, ErrNotFound
	default:
		return slices.MaxFunc(named, func(x, y *task) int { return x.created.Compare(y.created) }), nil
	}
}

// spawn does something that Run waits for. It is refused once Run has ended, or has not begun.
func (b *Backend) spawn(do func(ctx context.Context)) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.life == nil || b.closing {
		return false
	}
	ctx := b.life
	b.work.Go(func() { do(ctx) })
	return true
}

// limited gives a call to the Engine its time.
func (b *Backend) limited(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, b.s.Timeout)
}
