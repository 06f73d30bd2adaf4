package spool

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/lanyard-k8s/lanyard/api/healthevent/weight"
	"github.com/lanyard-k8s/lanyard/connector/sink"
)

// Options say what a spool is made of. Directory, Bytes, Sinks and Decide must be given.
type Options struct {
	// Directory is the spool's own; it is made when its parent is there.
	Directory string
	// Bytes bounds what the undelivered batches take on the disk. The last quarter takes batches of verified callers only.
	// What is put aside takes up to a sixteenth of it on top.
	Bytes int64
	// Group is how long a batch waits for others to be made durable with; 0 shares an fsync only with those that came while
	// another was under way.
	Group time.Duration
	// RetryMost bounds the pause between two attempts; 0 means 30 s.
	RetryMost time.Duration
	// Timeout bounds one attempt; 0 means 3 s.
	Timeout time.Duration
	// GiveUpAfter and GiveUpAttempts are how long and how often at least one batch is offered to a sink that fails on it
	// before it is put aside for that sink; 0 attempts is for ever.
	GiveUpAfter    time.Duration
	GiveUpAttempts int
	// Batch bounds the events of a record and their parts; zero is the default. A record with more is put aside.
	Batch weight.Bounds
	// Memory bounds what the records take that are being delivered, in bytes; 0 means 32 MiB. Every sink has an equal share, so that one that
	// answers nobody keeps nothing from the others; a record that alone may take more than that is delivered alone.
	Memory int64
	// Sinks get every batch.
	Sinks []sink.Sink
	// Decide says again, when a batch is read, whether it may go on. The batch must not be changed.
	Decide func(sink.Batch) error
	// NodeUID is the UID of the node that the connector runs on, empty while that is not known. A record of another node, or
	// of one that had the same name, is not delivered. Nil means that it is never known.
	NodeUID func() string
	// Hooks are told what happens; any of them may be nil.
	Hooks Hooks
	// Log gets what an operator must know. The zero Logger is silent.
	Log logr.Logger
}

// The errors of Append and Open. A caller of Append is answered with Unavailable for each of them.
var (
	// ErrFull: the bound is reached, or what of it is open to the caller.
	ErrFull = errors.New("the spool is full")
	// ErrClosed: the spool is being closed.
	ErrClosed = errors.New("the spool is closed")
	// ErrLocked: another process uses the directory.
	ErrLocked = errors.New("the spool is in use by another process")
)

// The least that a record counts against the bound, so that tiny batches do not fill the memory with their places.
const leastCharge = 256

// Spool is an open spool. Its methods may be called by several goroutines.
type Spool struct {
	o     Options
	disk  disk
	lanes []*lane
	least time.Duration // the first pause after a failed attempt

	buffers   sync.Pool // of *[]byte, the memory of records between appends
	joined    []byte    // the writer's
	requests  chan *request
	written   chan struct{} // closed when the writer has ended
	appending sync.WaitGroup
	workers   sync.WaitGroup
	stop      context.CancelFunc
	stopped   context.Context

	mu       sync.Mutex
	closed   bool
	ran      bool            // Run has been called
	running  context.Context // of Run; nil when nothing is delivered
	used     int64
	active   *segment // only the writer replaces it
	segments map[uint64]*segment
	queues   map[string]*queue
	// nextNumber is the number of the next segment.
	nextNumber uint64
	idle       chan struct{} // closed and replaced when nothing is pending

	aside aside
}

// Open locks the directory, reads what an earlier process left there and starts the writer.
func Open(o Options) (*Spool, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	d, err := openRoot(o.Directory)
	if err != nil {
		return nil, err
	}
	s, err := open(o, d)
	if err != nil {
		return nil, errors.Join(err, d.close())
	}
	return s, nil
}

// complete fills in defaults and says what is missing.
func (o *Options) complete() error {
	switch {
	case o.Directory == "":
		return errors.New("spool: no directory is given")
	case o.Bytes <= 0:
		return errors.New("spool: no bound is given")
	case len(o.Sinks) == 0:
		return errors.New("spool: no sink is given")
	case o.Decide == nil:
		return errors.New("spool: nobody decides about what is read")
	}
	names := map[sink.Name]bool{}
	for _, to := range o.Sinks {
		if names[to.Name()] {
			return fmt.Errorf("spool: two sinks are named %s", to.Name())
		}
		names[to.Name()] = true
	}
	if o.RetryMost <= 0 {
		o.RetryMost = 30 * time.Second
	}
	if o.Timeout <= 0 {
		o.Timeout = 3 * time.Second
	}
	if o.Memory <= 0 {
		o.Memory = 32 << 20
	}
	if o.NodeUID == nil {
		o.NodeUID = func() string { return "" }
	}
	return nil
}

// open builds a spool on a disk and starts its writer.
func open(o Options, d disk) (*Spool, error) {
	s := &Spool{
		o: o, disk: d, least: 100 * time.Millisecond,
		requests: make(chan *request, 256), written: make(chan struct{}),
		segments: map[uint64]*segment{}, queues: map[string]*queue{}, idle: make(chan struct{}),
	}
	s.stopped, s.stop = context.WithCancel(context.Background())
	for _, to := range o.Sinks {
		s.lanes = append(s.lanes, newLane(to, len(s.lanes), max(o.Memory/int64(len(o.Sinks)), 1)))
	}
	if err := s.recover(); err != nil {
		return nil, err
	}
	go s.write()
	return s, nil
}

// Close lets what is being appended come to its end, stops the delivery and unlocks the directory. What is not delivered stays for
// the next process.
func (s *Spool) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	s.mu.Unlock()
	s.appending.Wait()
	close(s.requests)
	<-s.written
	s.stop()
	s.workers.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, seg := range s.segments {
		errs = append(errs, seg.close())
	}
	return errors.Join(append(errs, s.disk.close())...)
}
