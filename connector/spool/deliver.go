package spool

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/lanyard-k8s/lanyard/api/healthevent/weight"
	"github.com/lanyard-k8s/lanyard/connector/nodebinding"
	"github.com/lanyard-k8s/lanyard/connector/sink"
	"github.com/lanyard-k8s/lanyard/internal/obs"
)

// Run delivers until ctx is cancelled, and returns nil when no delivery is under way any more. It is called once.
func (s *Spool) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.stopped, cancel)()
	s.mu.Lock()
	if s.ran || s.closed {
		s.mu.Unlock()
		return errors.New("the spool is closed or is delivering already")
	}
	s.ran, s.running = true, ctx
	for _, q := range s.queues {
		for _, l := range s.lanes {
			s.wake(l, q)
		}
	}
	s.mu.Unlock()
	<-ctx.Done()
	s.mu.Lock()
	s.running = nil // no worker starts from here on
	s.mu.Unlock()
	s.workers.Wait()
	return nil
}

// Drain returns when nothing is left to deliver, or with ctx's error. Somebody else must run Run.
func (s *Spool) Drain(ctx context.Context) error {
	for {
		s.mu.Lock()
		idle, left := s.idle, 0
		for _, l := range s.lanes {
			left += l.depth
		}
		s.mu.Unlock()
		if left == 0 {
			return nil
		}
		select {
		case <-idle:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// unfit is a record that may not go on.
type unfit struct {
	why   Reason
	body  []byte
	cause error
}

// result is what came of an attempt.
type result struct {
	unfit  *unfit      // the record may not go on
	done   bool        // the sink is done with it
	failed *sink.Error // it is to be offered again; nil also when it was not offered
	body   []byte
}

// attempt reads a record, decides about it again and offers it to the sink.
func (s *Spool) attempt(ctx context.Context, l *lane, p place) result {
	select {
	case l.slots <- struct{}{}:
		defer func() { <-l.slots }()
	case <-ctx.Done():
		return result{}
	}
	release, err := s.makeRoom(ctx, l, p)
	if err != nil {
		return result{}
	}
	defer release()
	body, err := p.segment.read(int64(p.offset))
	if err != nil && !errors.Is(err, errRecord) {
		s.o.Log.Error(err, "cannot read the spool", "segment", segmentName(p.segment.number))
		return result{}
	}
	b, why, err := s.judge(body, err)
	if why != "" {
		return result{unfit: &unfit{why: why, body: body, cause: err}}
	}
	done, failed := s.offer(ctx, l, b)
	return result{done: done, failed: failed, body: body}
}

// makeRoom waits until there is memory for a record: its bytes, what a sink makes of them, and what they are decoded to at most.
func (s *Spool) makeRoom(ctx context.Context, l *lane, p place) (release func(), err error) {
	length := p.segment.lengthAt(int64(p.offset))
	bytes := min(l.share, 2*length+s.o.Batch.Most(length))
	if err := l.memory.Acquire(ctx, bytes); err != nil {
		return nil, err
	}
	return func() { l.memory.Release(bytes) }, nil
}

// judge says whether what was read may go on.
func (s *Spool) judge(body []byte, err error) (sink.Batch, Reason, error) {
	if err != nil {
		return sink.Batch{}, Corrupt, err
	}
	h, err := readHead(body)
	if err != nil {
		return sink.Batch{}, Unreadable, err
	}
	if own := s.o.NodeUID(); own != "" && h.ownNodeUID != "" && own != h.ownNodeUID {
		return sink.Batch{}, ForeignNode, errors.New("the record was made on another node")
	}
	b, err := h.readBatch(s.o.Batch)
	var excess *weight.Excess
	switch {
	case errors.As(err, &excess):
		return sink.Batch{}, TooLarge, err
	case err != nil:
		return sink.Batch{}, Unreadable, err
	}
	if err := s.o.Decide(b); err != nil {
		return sink.Batch{}, Refused, err
	}
	return b, "", nil
}

// offer hands a batch to a sink and says whether the sink is done with it, or what went wrong.
func (s *Spool) offer(ctx context.Context, l *lane, b sink.Batch) (bool, *sink.Error) {
	attempt, cancel := context.WithTimeout(ctx, s.o.Timeout)
	defer cancel()
	begin := time.Now()
	report, err := s.call(attempt, l, b)
	if ctx.Err() != nil && err != nil {
		return false, nil // we are stopping; that is nobody's failure
	}
	end := sink.Classify(err)
	s.o.Hooks.attempted(Attempt{Sink: l.sink.Name(), Report: report, Err: end, Took: time.Since(begin)})
	switch {
	case end == nil:
		l.taken.Add(1)
		return true, nil
	case end.Final:
		s.o.Log.Error(end, "a sink refused a batch for good", "sink", l.sink.Name(), obs.KeyCaller, b.Caller.Username,
			"events", len(b.Events))
		return true, nil
	default:
		s.o.Log.V(1).Info("a delivery is put off", "sink", l.sink.Name(), "reason", end.Reason, "cause", end.Error())
		return false, end
	}
}

// call contains a panic of a sink: without that, the batch that caused it would end the process again at each start.
func (s *Spool) call(ctx context.Context, l *lane, b sink.Batch) (report sink.Report, err error) {
	defer func() {
		if r := recover(); r != nil {
			s.o.Log.Info("a sink panicked", "sink", l.sink.Name(), "stack", string(debug.Stack()))
			report, err = nil, sink.Final(sink.Internal, nodebinding.Internal, fmt.Errorf("the sink %s panicked", l.sink.Name()))
		}
	}()
	return l.sink.Deliver(ctx, b)
}
