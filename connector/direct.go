package connector

import (
	"context"
	"errors"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lanyard-k8s/lanyard/api/healthevent/weight"
	"github.com/lanyard-k8s/lanyard/connector/nodebinding"
	"github.com/lanyard-k8s/lanyard/connector/sink"
)

// Bounds of what Direct does for the sinks that nobody waits for.
const (
	laneQueue    = 256              // batches that wait in one lane
	lazyBytes    = 64 << 20         // what waits for one sink takes of the memory
	lanes        = 8                // for each sink; one publisher's batches stay in one lane, and so in order
	lanePatience = 30 * time.Second // how long one batch is tried
	laneFirst    = 100 * time.Millisecond
	laneMost     = 5 * time.Second
)

// Direct hands batches to sinks without a spool in between. It acknowledges a batch when the sinks that are waited for have
// it; the others get it when they can, inside a bound. The deployment role waits for its store; where there is no store, and
// on a socket without a spool, every sink is waited for.
type Direct struct {
	waited  []sink.Sink
	lazy    []*lazy
	timeout time.Duration
	metrics *Metrics
	seed    maphash.Seed
}

// lazy is a sink that nobody waits for.
type lazy struct {
	sink    sink.Sink
	lanes   [lanes]chan waiting
	waiting atomic.Int64 // bytes
}

// waiting is a batch with its size.
type waiting struct {
	batch sink.Batch
	bytes int64
}

// NewDirect returns an Intake on top of sinks. The timeout bounds one delivery to one sink.
func NewDirect(sinks []sink.Sink, role nodebinding.Role, timeout time.Duration, m *Metrics) (*Direct, error) {
	if len(sinks) == 0 || timeout <= 0 || m == nil {
		return nil, errors.New("connector: sinks, a timeout or metrics are missing")
	}
	d := &Direct{timeout: timeout, metrics: m, seed: maphash.MakeSeed()}
	stored := false
	for _, s := range sinks {
		stored = stored || s.Name() == sink.Store
	}
	for _, s := range sinks {
		m.Sinks(s.Name())
		if role != nodebinding.Deployment || !stored || s.Name() == sink.Store {
			d.waited = append(d.waited, s)
			continue
		}
		l := &lazy{sink: s}
		for i := range l.lanes {
			l.lanes[i] = make(chan waiting, laneQueue)
		}
		d.lazy = append(d.lazy, l)
	}
	return d, nil
}

// Append delivers to the sinks that are waited for, all at once, and queues for the others. A sink that has refused the batch
// for good keeps it from nobody else; it is refused when they all have.
func (d *Direct) Append(ctx context.Context, b sink.Batch) error {
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	errs := make([]error, len(d.waited))
	var deliveries sync.WaitGroup
	for i, s := range d.waited[1:] {
		deliveries.Go(func() { errs[i+1] = d.deliver(ctx, s, b) })
	}
	errs[0] = d.deliver(ctx, d.waited[0], b)
	deliveries.Wait()
	refused := 0
	for _, err := range errs {
		switch e := sink.Classify(err); {
		case e == nil:
		case e.Final:
			refused++
		case ctx.Err() != nil:
			return ctx.Err()
		default:
			return err
		}
	}
	if refused == len(errs) {
		return errs[0]
	}
	for _, l := range d.lazy {
		d.queue(l, b)
	}
	return nil
}

// deliver makes one attempt. A sink that panics has failed, and the others go on.
func (d *Direct) deliver(ctx context.Context, s sink.Sink, b sink.Batch) (err error) {
	var r sink.Report
	defer func() {
		if p := recover(); p != nil {
			d.metrics.panics.Inc()
			err = sink.Retry(sink.Internal, errors.New("the sink panicked"))
		}
		d.metrics.sinkDelivered(s.Name(), r, err)
	}()
	r, err = s.Deliver(ctx, b)
	return err
}

// queue lets a batch wait for a sink, unless its lane is full or too much waits for that sink already.
func (d *Direct) queue(l *lazy, b sink.Batch) {
	name := string(l.sink.Name())
	w := waiting{batch: b, bytes: weight.Of(b.Events).Bytes}
	if l.waiting.Add(w.bytes) > lazyBytes {
		l.waiting.Add(-w.bytes)
		d.metrics.dropped.WithLabelValues(name).Inc()
		return
	}
	of := maphash.String(d.seed, b.Caller.PodUID+"/"+b.Publisher())
	select {
	case l.lanes[of%lanes] <- w:
		d.metrics.queued.WithLabelValues(name).Inc()
	default:
		l.waiting.Add(-w.bytes)
		d.metrics.dropped.WithLabelValues(name).Inc()
	}
}

// Run serves the sinks that nobody waits for until ctx ends and they have what is queued, or drain has passed.
func (d *Direct) Run(ctx context.Context, drain time.Duration) error {
	hard, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	stop := context.AfterFunc(ctx, func() {
		timer := time.NewTimer(drain)
		defer timer.Stop()
		select {
		case <-timer.C:
			cut()
		case <-hard.Done():
		}
	})
	defer stop()
	var workers sync.WaitGroup
	for _, l := range d.lazy {
		for _, lane := range l.lanes {
			workers.Go(func() { d.serve(ctx, hard, l, lane) })
		}
	}
	workers.Wait()
	<-ctx.Done()
	return nil
}

// serve works off a lane. Once ctx has ended it stops when the lane is empty, and at once when hard has.
func (d *Direct) serve(ctx, hard context.Context, l *lazy, lane chan waiting) {
	for {
		select {
		case w := <-lane:
			d.insist(hard, l.sink, w.batch)
			l.waiting.Add(-w.bytes)
			continue
		default:
		}
		select {
		case w := <-lane:
			d.insist(hard, l.sink, w.batch)
			l.waiting.Add(-w.bytes)
		case <-ctx.Done():
			if len(lane) == 0 || hard.Err() != nil {
				return
			}
		}
	}
}

// insist tries to deliver a batch until the sink has it, refuses it for good, or patience ends.
func (d *Direct) insist(ctx context.Context, s sink.Sink, b sink.Batch) {
	name := string(s.Name())
	d.metrics.queued.WithLabelValues(name).Dec()
	ctx, cancel := context.WithTimeout(ctx, lanePatience)
	defer cancel()
	for pause := laneFirst; ; pause = min(2*pause, laneMost) {
		once, done := context.WithTimeout(ctx, d.timeout)
		e := sink.Classify(d.deliver(once, s, b))
		done()
		switch {
		case e == nil:
			return
		case e.Final:
			d.metrics.dropped.WithLabelValues(name).Inc()
			return
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			d.metrics.dropped.WithLabelValues(name).Inc()
			return
		}
	}
}
