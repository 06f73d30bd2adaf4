package client

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	healtheventv1 "github.com/lanyard-k8s/lanyard/api/healthevent/v1"
)

// ErrFull is what Enqueue returns when the queue's bound is reached. What is queued stays: the first reports of a fault say
// more than the ones that repeat it. The caller keeps, merges or drops the batch.
var ErrFull = errors.New("the publisher's queue is full")

// ErrTooMuch is what Publish and Enqueue return for a batch that holds more events, or more parts of events, than connectors take
// (Options.Batch): it would be refused for good. The error says which bound that is; the caller sends the events in several batches.
var ErrTooMuch = errors.New("the batch is not sent, since no connector would take it")

// ErrClosed is what Publish and Enqueue return after Close, and what is left undelivered ends with.
var ErrClosed = errors.New("the publisher is closed")

// keyName is the metadata that carries a batch's idempotency key.
const keyName = "idempotency-key"

// Publisher sends batches to a connector: in order, one at a time, each under one idempotency key for all its attempts, so that
// a batch whose answer was lost is stored once. Unavailable and DeadlineExceeded are tried again with growing pauses; any
// other answer is final for its batch, and the next one goes on.
type Publisher struct {
	o      Options
	conn   *grpc.ClientConn
	client healtheventv1.PlatformConnectorClient

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	done   chan struct{}

	mu     sync.Mutex
	queue  []*item
	bytes  int
	closed bool
	wake   chan struct{}
}

// item is a batch on its way.
type item struct {
	batch *healtheventv1.HealthEvents
	size  int
	key   string
	ctx   context.Context
	end   func(error)
}

// NewPublisher checks the options and connects when the first batch is sent.
func NewPublisher(o Options) (*Publisher, error) {
	o, err := o.filled()
	if err != nil {
		return nil, err
	}
	conn, err := o.dial()
	if err != nil {
		return nil, err
	}
	p := &Publisher{
		o: o, conn: conn, client: healtheventv1.NewPlatformConnectorClient(conn), done: make(chan struct{}), wake: make(chan struct{}, 1),
	}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	go p.run()
	return p, nil
}

// Publish sends a batch and returns when the connector has acknowledged it (nil), has refused it for good, or ctx has ended. The
// batch must not be changed before it returns. The error of a refusal is a gRPC status.
func (p *Publisher) Publish(ctx context.Context, batch *healtheventv1.HealthEvents) error {
	end := make(chan error, 1)
	it, err := p.add(ctx, batch, func(err error) { end <- err })
	if err != nil {
		return err
	}
	select {
	case err := <-end:
		return err
	case <-ctx.Done():
	}
	if p.withdraw(it) {
		return ctx.Err()
	}
	return <-end // it is being sent, which its context has just ended
}

// withdraw takes a batch out of the queue, unless it is being sent or was.
func (p *Publisher) withdraw(it *item) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.Index(p.queue, it)
	if i < 1 {
		return false
	}
	p.queue = slices.Delete(p.queue, i, i+1)
	p.bytes -= it.size
	return true
}

// Enqueue queues a batch and returns at once, with ErrFull if there is no room. Options.Ended is told what became of it. The
// batch belongs to the Publisher from then on.
func (p *Publisher) Enqueue(batch *healtheventv1.HealthEvents) error {
	_, err := p.add(p.ctx, batch, func(err error) {
		if p.o.Ended != nil {
			p.o.Ended(batch, err)
		}
	})
	return err
}

func (p *Publisher) add(ctx context.Context, batch *healtheventv1.HealthEvents, end func(error)) (*item, error) {
	if err := p.o.Batch.Check(batch.GetEvents()); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrTooMuch, err)
	}
	it := &item{batch: batch, size: proto.Size(batch), key: newKey(), ctx: ctx, end: end}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closed:
		return nil, ErrClosed
	case len(p.queue) >= p.o.MaxBatches || p.bytes+it.size > p.o.MaxBytes:
		return nil, ErrFull
	}
	p.queue = append(p.queue, it)
	p.bytes += it.size
	select {
	case p.wake <- struct{}{}:
	default:
	}
	return it, nil
}

// Close waits until the queue is empty or ctx has ended, and ends everything. What is left over then is lost, and the error
// says how much that is.
func (p *Publisher) Close(ctx context.Context) error {
	p.mu.Lock()
	already := p.closed
	p.closed = true
	p.mu.Unlock()
	if !already {
		close(p.wake)
	}
	select {
	case <-p.done:
	case <-ctx.Done():
	}
	p.cancel()
	<-p.done
	p.mu.Lock()
	left := p.queue
	p.queue = nil
	p.mu.Unlock()
	for _, it := range left {
		it.end(ErrClosed)
	}
	err := p.conn.Close()
	if len(left) > 0 {
		return fmt.Errorf("%d batches were not delivered: %w", len(left), ErrClosed)
	}
	return err
}

// run sends what is queued, the first first.
func (p *Publisher) run() {
	defer close(p.done)
	for {
		it := p.first()
		if it == nil {
			if _, open := <-p.wake; !open && p.first() == nil {
				return
			}
			continue
		}
		err := p.insist(it)
		if p.ctx.Err() != nil && err != nil {
			return // Close tells those who are left
		}
		p.mu.Lock()
		p.queue[0] = nil
		p.queue = p.queue[1:]
		p.bytes -= it.size
		p.mu.Unlock()
		it.end(err)
	}
}

func (p *Publisher) first() *item {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.queue) == 0 {
		return nil
	}
	return p.queue[0]
}

// insist sends a batch until it is acknowledged, refused, or nobody wants it sent any more.
func (p *Publisher) insist(it *item) error {
	ctx, cancel := context.WithCancel(it.ctx)
	defer cancel()
	defer context.AfterFunc(p.ctx, cancel)()
	for pause := p.o.FirstPause; ; pause = min(2*pause, p.o.MostPause) {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		err := p.try(ctx, it)
		if !Temporary(err) {
			return err
		}
		if p.o.Retrying != nil {
			p.o.Retrying(err)
		}
		timer := time.NewTimer(pause/2 + mathrand.N(pause/2+1))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("%w; the last answer was: %w", ctx.Err(), err)
		}
	}
}

func (p *Publisher) try(ctx context.Context, it *item) error {
	ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(ctx, keyName, it.key), p.o.CallTimeout)
	defer cancel()
	_, err := p.client.HealthEventOccurredV1(ctx, it.batch)
	return err
}

// Temporary says whether the same batch may fare better later: publishers try Unavailable and DeadlineExceeded again and
// nothing else. Of an exchange's failures (ExchangeError) it says the same.
func Temporary(err error) bool {
	var e *ExchangeError
	if errors.As(err, &e) {
		return e.Temporary()
	}
	switch status.Code(err) {
	case codes.Unavailable, codes.DeadlineExceeded:
		return true
	default:
		return false
	}
}

// newKey makes an idempotency key that nobody else has.
func newKey() string {
	var random [16]byte
	_, _ = rand.Read(random[:]) // never fails
	return hex.EncodeToString(random[:])
}
