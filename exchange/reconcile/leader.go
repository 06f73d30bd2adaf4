package reconcile

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// The lease's times. A leader that cannot renew stops well before another may begin.
const (
	leaseDuration = 15 * time.Second
	renewDeadline = 10 * time.Second
	retryPeriod   = 2 * time.Second
)

// Run reconciles until ctx ends: at once if there is no lease to hold, otherwise whenever this replica holds it. What cannot be
// begun, for the API server or the store is away, is begun again.
func (r *Reconciler) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := r.term(ctx); err != nil && ctx.Err() == nil {
			r.failed(err, "leading")
		}
		wait := time.NewTimer(retryPeriod / 2)
		select {
		case <-ctx.Done():
		case <-wait.C:
		}
		wait.Stop()
	}
	return nil
}

// term leads once.
func (r *Reconciler) term(ctx context.Context) error {
	if r.options.Lease == nil {
		return r.lead(ctx)
	}
	l := r.options.Lease
	lock := &noting{Interface: &resourcelock.LeaseLock{
		LeaseMeta: metav1.ObjectMeta{Namespace: l.Namespace, Name: l.Name}, Client: r.reads.typed.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: l.Identity},
	}}
	// The lease outlives ctx until the leader's work has ended, and is given back only then: nobody else leads meanwhile.
	holding, release := context.WithCancel(context.WithoutCancel(ctx))
	defer release()
	defer context.AfterFunc(ctx, func() {
		if !lock.held.Load() {
			release()
		}
	})()
	ended := make(chan error, 1)
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: lock, LeaseDuration: leaseDuration, RenewDeadline: renewDeadline, RetryPeriod: retryPeriod, ReleaseOnCancel: true, Name: component,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(held context.Context) {
				ended <- r.leadWhile(ctx, held)
				release()
			},
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return fmt.Errorf("prepare the election: %w", err)
	}
	elector.Run(holding)
	if !lock.held.Load() {
		return nil
	}
	return <-ended
}

// leadWhile leads until either context ends.
func (r *Reconciler) leadWhile(ctx, held context.Context) error {
	both, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(held, cancel)()
	return r.lead(both)
}

// noting is a lock that knows whether it was ever held: then leading has begun or is about to, and is waited for.
type noting struct {
	resourcelock.Interface
	held atomic.Bool
}

// Create takes a lease that nobody has made yet.
func (n *noting) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return n.note(n.Interface.Create(ctx, record))
}

// Update takes the lease, or keeps it.
func (n *noting) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return n.note(n.Interface.Update(ctx, record))
}

func (n *noting) note(err error) error {
	if err == nil {
		n.held.Store(true)
	}
	return err
}
