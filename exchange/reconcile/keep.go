package reconcile

import (
	"context"
	"time"

	"github.com/lanyard-k8s/lanyard/delegation"
	"github.com/lanyard-k8s/lanyard/exchange/provenance"
)

// collectBatch is how many old records are deleted at once.
const collectBatch = 500

// keep runs the watches, looks at the policies when something has happened to them, and goes through everything now and then.
func (r *Reconciler) keep(ctx context.Context, w *watches) {
	defer w.running.Wait()
	managed := map[string]time.Time{}
	r.round(ctx, w, managed)
	if err := w.start(ctx); err != nil {
		r.failed(err, "starting the watches")
	}
	ready := make(chan struct{})
	w.running.Go(func() {
		if w.synced(ctx) {
			close(ready)
		}
	})
	tick := time.NewTicker(r.options.Every)
	defer tick.Stop()
	for swept := false; ; {
		select {
		case <-ctx.Done():
			return
		case <-r.poke:
			r.round(ctx, w, managed)
			continue
		case <-ready:
			ready = nil
			swept = true
		case <-tick.C:
			r.round(ctx, w, managed)
			w.more(ctx)
		}
		if swept {
			r.sweep(ctx, w)
		}
	}
}

// round looks at policies and namespaces, and then at everything in namespaces that have become managed.
func (r *Reconciler) round(ctx context.Context, w *watches, managed map[string]time.Time) {
	s, err := r.guard.fresh(ctx)
	r.options.Metrics.skew.Set(r.clock.skew().Seconds())
	if err != nil {
		r.failed(err, "looking at the policies")
		return
	}
	r.keepCA(ctx)
	added := map[string]bool{}
	for name, since := range s.managed {
		if before, ok := managed[name]; !ok || !before.Equal(since) {
			added[name] = true
		}
	}
	clear(managed)
	for name, since := range s.managed {
		managed[name] = since
	}
	all := s.state == InOrder && r.parked.Swap(false)
	if s.state == InOrder && !w.epoch.Equal(s.epoch) { // whatever has not changed meanwhile is to be known as unchanged
		w.epoch, all = s.epoch, true
	}
	if len(added) == 0 && !all {
		return
	}
	for kind := range w.byKind {
		for _, k := range w.seen(kind) {
			if _, managed := s.managed[k.Namespace]; added[k.Namespace] || all && managed {
				r.queue.Add(k)
			}
		}
	}
}

// sweep compares what the store holds with what there is. It does nothing while the clocks differ.
func (r *Reconciler) sweep(ctx context.Context, w *watches) {
	now, ok := r.clock.server()
	if !ok {
		r.failed(errClock, "going through everything")
		return
	}
	for _, do := range []func(context.Context, *watches, time.Time) error{r.sweepRows, r.sweepSubmissions, r.collect} {
		if err := do(ctx, w, now); err != nil {
			r.failed(err, "going through everything")
		}
	}
	r.options.Metrics.rows.Set(float64(len(r.book.all())))
}

// sweepRows has the rows looked at that are due, and ends those whose pods are nowhere. The rows are taken first and the pods listed
// afterwards: a pod that the list lacks was there before, and is gone.
func (r *Reconciler) sweepRows(ctx context.Context, w *watches, now time.Time) error {
	rows, pods := r.book.all(), w.seen(provenance.PodKind())
	missing := map[string][]string{}
	for uid, e := range rows {
		k, there := pods[uid]
		switch {
		case !there:
			missing[e.namespace] = append(missing[e.namespace], uid)
		case e.expires.Sub(now) < r.options.MaxAge/2:
			r.queue.Add(k)
		}
	}
	for namespace, uids := range missing {
		live, err := r.reads.pods(ctx, namespace)
		if err != nil {
			return err
		}
		for _, uid := range uids {
			name, there := live[uid]
			if there {
				r.queue.Add(key{GroupKind: provenance.PodKind(), Namespace: namespace, Name: name, UID: uid})
			} else if err := r.end(ctx, uid, delegation.PodGone); err != nil {
				return err
			}
		}
	}
	return nil
}

// sweepSubmissions has the open submissions looked at whose objects the watches do not show.
func (r *Reconciler) sweepSubmissions(ctx context.Context, w *watches, now time.Time) error {
	r.undefined(w, now)
	orphans := 0
	defer func() { r.options.Metrics.orphans.Set(float64(orphans)) }()
	kinds := map[string]provenance.GroupKind{provenance.PodKind().String(): provenance.PodKind()}
	seen := map[provenance.GroupKind]map[string]key{provenance.PodKind(): w.seen(provenance.PodKind())}
	for _, k := range r.rules.Kinds {
		kinds[k.String()], seen[k.GroupKind] = k.GroupKind, w.seen(k.GroupKind)
	}
	for after := ""; ; {
		page, err := r.options.Store.Submissions(ctx, delegation.SubmissionQuery{State: delegation.Confirmed, After: after, Limit: delegation.MaxPage})
		if err != nil {
			return err
		}
		for _, s := range page {
			after = s.UID
			kind, ours := kinds[s.GroupKind]
			if !ours {
				kind = w.unlisted(s.GroupKind, now)
			}
			if since, gone := w.missing[kind]; gone {
				orphans++
				if err := r.orphan(ctx, s, since, now); err != nil {
					return err
				}
				continue
			}
			if _, there := seen[kind][s.UID]; ours && (!there || !r.guard.manages(s.Namespace)) {
				r.queue.Add(key{GroupKind: kind, Namespace: s.Namespace, Name: s.Name, UID: s.UID})
			}
		}
		if len(page) < delegation.MaxPage {
			return nil
		}
	}
}

// collect deletes what has had its time. A pod that was refused, or whose row was revoked, may run on without its row: it is judged
// again, so that its answer stays "no" and does not become "not yet".
func (r *Reconciler) collect(ctx context.Context, w *watches, now time.Time) error {
	c := delegation.Collection{Tombstones: now.Add(-r.options.Tombstones), Submitters: now.Add(-r.options.Retention), Limit: collectBatch}
	for {
		got, err := r.options.Store.Collect(ctx, c)
		if err != nil || got.None() {
			return err
		}
		if len(got.Undone) > 0 {
			pods := w.seen(provenance.PodKind())
			for _, uid := range got.Undone {
				if k, there := pods[uid]; there {
					r.queue.Add(k)
				}
			}
		}
	}
}

func (r *Reconciler) failed(err error, doing string) {
	r.options.Metrics.errors.Inc()
	r.options.Log.Error(err, doing)
}
