package spool

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	healtheventv1 "github.com/lanyard-k8s/lanyard/api/healthevent/v1"
	"github.com/lanyard-k8s/lanyard/connector/nodebinding"
	"github.com/lanyard-k8s/lanyard/connector/sink"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDirectory); dir != "" {
		appendForEver(dir)
	}
	goleak.VerifyTestMain(m)
}

// collector is a sink that notes the ids of the events it gets, and does before what a test wants.
type collector struct {
	name   sink.Name
	before func(ctx context.Context, b sink.Batch) error

	mu      sync.Mutex
	ids     []string
	batches []sink.Batch
	arrived chan struct{}
}

func newCollector(name sink.Name) *collector {
	return &collector{name: name, arrived: make(chan struct{}, 1)}
}

func (c *collector) Name() sink.Name { return c.name }

func (c *collector) Deliver(ctx context.Context, b sink.Batch) (sink.Report, error) {
	if c.before != nil {
		if err := c.before(ctx, b); err != nil {
			return nil, err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range b.Events {
		c.ids = append(c.ids, e.GetId())
	}
	c.batches = append(c.batches, b)
	select {
	case c.arrived <- struct{}{}:
	default:
	}
	return sink.Report{sink.Written: len(b.Events)}, nil
}

func (c *collector) got() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string{}, c.ids...)
}

// await waits until n events have arrived.
func (c *collector) await(t *testing.T, n int) []string {
	t.Helper()
	for {
		if ids := c.got(); len(ids) >= n {
			return ids
		}
		select {
		case <-c.arrived:
		case <-time.After(20 * time.Second):
			t.Fatalf("%s got %d events, want %d", c.name, len(c.got()), n)
		}
	}
}

// soon is a context that ends long before the time of the whole package is over.
func soon(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func allow(sink.Batch) error { return nil }

// options are those of a spool in a directory of the test's own.
func options(t *testing.T, sinks ...sink.Sink) Options {
	t.Helper()
	return Options{Directory: filepath.Join(t.TempDir(), "spool"), Bytes: 8 << 20, Sinks: sinks, Decide: allow, RetryMost: 5 * time.Millisecond}
}

// opened opens a spool that the test closes.
func opened(t *testing.T, o Options) *Spool {
	t.Helper()
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	s.least = time.Millisecond
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// running delivers until the returned function is called, and at the latest until the end of the test.
func running(t *testing.T, s *Spool) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return stop
}

func batchOf(username, id string) sink.Batch {
	b := sink.NewBatch([]*healtheventv1.HealthEvent{{
		Version: 1, Id: id, Agent: "monitor", CheckName: "GpuXidError", NodeName: "node-a", Message: "a GPU fell off the bus", IsFatal: true,
		EntitiesImpacted: []*healtheventv1.Entity{{EntityType: "GPU", EntityValue: "0"}},
	}}, sink.Caller{}, nodebinding.NodeLocal, time.Unix(1_700_000_000, 5).UTC())
	b.Key = "key-" + id
	if username != "" {
		b.Caller = sink.Caller{
			Username: username, PodName: "monitor-1", PodUID: "pod-1", Node: "node-a", NodeUID: "uid-a", CredentialID: "JTI=1",
		}
	}
	return b
}

// appended appends n batches of a publisher and returns their ids.
func appended(t *testing.T, s *Spool, username string, from, n int) []string {
	t.Helper()
	ids := make([]string, 0, n)
	for i := from; i < from+n; i++ {
		id := fmt.Sprintf("%s-%d", username, i)
		if err := s.Append(t.Context(), batchOf(username, id)); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	return ids
}

var errDown = errors.New("down")
