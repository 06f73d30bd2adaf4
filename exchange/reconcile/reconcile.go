package reconcile

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"

	"github.com/lanyard-k8s/lanyard/exchange/provenance"
)

// Reconciler is one replica's reconciler. Make it with New and run it with Run, once.
type Reconciler struct {
	options Options
	rules   provenance.Rules
	clock   *serverClock
	reads   reads
	guard   *guard
	book    book
	objects flights[key, *provenance.Object]
	poke    chan struct{} // asks for a round of the keeper: namespaces or policies have changed
	parked  atomic.Bool   // something waits for the policies to be in order

	queue workqueue.TypedRateLimitingInterface[key]
}

// key is what a worker looks at: a pod, or an object of a job kind. The UID tells it from a later one of its name.
type key = provenance.Reference

// New makes a reconciler. It asks the API server nothing yet.
func New(o Options) (*Reconciler, error) {
	o, err := o.filled()
	if err != nil {
		return nil, err
	}
	clock := &serverClock{now: o.Now}
	rules := rulesOf(o.Settings)
	kinds := stampedKinds(o.Settings, rules)
	r, err := newReads(o.Config, clock, kinds)
	if err != nil {
		return nil, fmt.Errorf("reconcile: %w", err)
	}
	expected, err := expectations(o.Settings)
	if err != nil {
		return nil, fmt.Errorf("reconcile: %w", err)
	}
	excluded := map[string]bool{}
	for _, name := range o.Settings.ExcludedNamespaces {
		excluded[name] = true
	}
	rec := &Reconciler{options: o, rules: rules, clock: clock, reads: r, poke: make(chan struct{}, 1)}
	rec.guard = &guard{reads: r, store: o.Store, clock: clock, expected: expected, excluded: excluded, kinds: kinds, margin: o.EpochMargin, log: o.Log, changed: rec.guardChanged, uids: r.uids}
	return rec, nil
}

// lead does the leader's work until ctx ends. Everything it has started has ended when it returns.
func (r *Reconciler) lead(ctx context.Context) error {
	if err := r.reads.tick(ctx); err != nil {
		return fmt.Errorf("ask the API server: %w", err)
	}
	if err := r.guard.load(ctx); err != nil {
		return err
	}
	r.objects.begin(ctx)
	if err := r.book.load(ctx, r.options.Store); err != nil {
		return err
	}
	r.queue = workqueue.NewTypedRateLimitingQueue(limiter())
	w := r.newWatches()
	var tasks sync.WaitGroup
	defer r.objects.wait()
	defer r.guard.looks.wait()
	defer tasks.Wait()
	defer r.queue.ShutDown()
	for range r.options.Workers {
		tasks.Go(func() { r.work(ctx) })
	}
	tasks.Go(func() { r.keep(ctx, w) })
	r.options.Log.Info("leading")
	r.options.Metrics.leader.Set(1)
	defer r.options.Metrics.leader.Set(0)
	<-ctx.Done()
	return nil
}

// work looks at keys until the queue is shut down.
func (r *Reconciler) work(ctx context.Context) {
	for {
		k, over := r.queue.Get()
		if over {
			return
		}
		r.look(ctx, k)
		r.queue.Done(k)
	}
}

// look does one key, and comes back to it if that did not succeed.
func (r *Reconciler) look(ctx context.Context, k key) {
	limited, cancel := context.WithTimeout(ctx, 3*callTimeout)
	defer cancel()
	do := r.lookAtWork
	if k.GroupKind == provenance.PodKind() {
		do = r.lookAtPod
	}
	again, err := do(limited, k)
	switch {
	case ctx.Err() != nil:
	case errors.Is(err, errUndefined), errors.Is(err, errMisnamed):
		r.queue.Forget(k)
		if k.GroupKind == provenance.PodKind() { // its controller's kind; what has no kind itself is for the sweep
			r.queue.AddAfter(k, r.options.Every)
		}
	case err != nil:
		r.options.Metrics.errors.Inc()
		r.options.Log.Error(err, "looking at an object", keyKind, k.GroupKind.String(), keyNamespace, k.Namespace, keyName, k.Name)
		r.queue.AddRateLimited(k)
	default:
		r.queue.Forget(k)
		if again > 0 {
			r.queue.AddAfter(k, again)
		}
	}
}

// gather reads what a judge asks for, one object after the other.
func (r *Reconciler) gather(ctx context.Context, judge func(provenance.Live, provenance.Guards) provenance.Verdict) (provenance.Live, error) {
	live := provenance.Live{}
	// Whatever the policies say, the same objects are needed; whether they may be believed is asked when all were read.
	open := provenance.Guards{InOrder: true, Managed: true, Epoch: metav1.Unix(1, 0), Kinds: map[provenance.GroupKind]metav1.Time{}}
	for _, k := range r.rules.Stamped() {
		open.Kinds[k] = open.Epoch
	}
	for {
		v := judge(live, open)
		if v.Need == nil {
			return live, nil
		}
		o, err := r.objects.fresh(ctx, *v.Need, r.reads.object)
		if err != nil {
			return nil, err
		}
		live[*v.Need] = o
	}
}

// judge gathers what is needed, looks at the policies afterwards, and decides.
func (r *Reconciler) judge(ctx context.Context, namespace string, judge func(provenance.Live, provenance.Guards) provenance.Verdict) (provenance.Verdict, error) {
	live, err := r.gather(ctx, judge)
	if err != nil {
		return provenance.Verdict{}, err
	}
	s, err := r.guard.fresh(ctx)
	if err != nil {
		return provenance.Verdict{}, err
	}
	return judge(live, s.guards(namespace)), nil
}

// waits says whether what is new has to wait for the policies. It is then looked at in the round after they are in order again, and
// not over and over meanwhile.
func (r *Reconciler) waits() bool {
	r.parked.Store(true) // before the look: a round that comes in between finds it
	return !r.guard.inOrder()
}
