package connector

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	healtheventv1 "github.com/lanyard-k8s/lanyard/api/healthevent/v1"
	"github.com/lanyard-k8s/lanyard/api/healthevent/weight"
	"github.com/lanyard-k8s/lanyard/connector/nodebinding"
	"github.com/lanyard-k8s/lanyard/connector/sink"
)

// outlet is a sink that does what a test wants it to.
type outlet struct {
	name sink.Name
	do   func(ctx context.Context, attempt int) error

	mu       sync.Mutex
	attempts int
	keys     []string
}

func (o *outlet) Name() sink.Name { return o.name }

func (o *outlet) Deliver(ctx context.Context, b sink.Batch) (sink.Report, error) {
	o.mu.Lock()
	o.attempts++
	attempt := o.attempts
	o.mu.Unlock()
	if o.do != nil {
		if err := o.do(ctx, attempt); err != nil {
			return nil, err
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.keys = append(o.keys, b.Key)
	return sink.Report{sink.Written: len(b.Events)}, nil
}

func (o *outlet) got() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]string(nil), o.keys...)
}

func keyed(key string) sink.Batch {
	b := sink.NewBatch(batchOf(own).Events, sink.Caller{Username: monitor, PodUID: "p"}, nodebinding.NodeLocal, time.Time{})
	b.Key = key
	return b
}

func newDirect(t *testing.T, role nodebinding.Role, sinks ...sink.Sink) *Direct {
	t.Helper()
	m, err := NewMetrics(prometheus.NewRegistry())
	must(t, err)
	d, err := NewDirect(sinks, role, 100*time.Millisecond, m)
	must(t, err)
	return d
}

func TestDirectAnswersForTheSinksThatAreWaitedFor(t *testing.T) {
	t.Parallel()
	fine := func(context.Context, int) error { return nil }
	busy := func(context.Context, int) error { return sink.Retry(sink.Busy, errors.New("x")) }
	never := func(context.Context, int) error {
		return sink.Final(sink.CrossNode, nodebinding.PermissionDenied, errors.New("x"))
	}
	stuck := func(ctx context.Context, _ int) error { <-ctx.Done(); return ctx.Err() }
	panics := func(context.Context, int) error { panic("x") }
	for name, tc := range map[string]struct {
		role nodebinding.Role
		do   map[sink.Name]func(context.Context, int) error
		want string
	}{
		"socket: all fine":                   {nodebinding.Socket, map[sink.Name]func(context.Context, int) error{sink.Log: fine, sink.Kubernetes: fine}, ""},
		"socket: one is busy":                {nodebinding.Socket, map[sink.Name]func(context.Context, int) error{sink.Log: fine, sink.Kubernetes: busy}, "busy: x"},
		"socket: one refuses for good":       {nodebinding.Socket, map[sink.Name]func(context.Context, int) error{sink.Log: fine, sink.Forward: never}, ""},
		"socket: all refuse for good":        {nodebinding.Socket, map[sink.Name]func(context.Context, int) error{sink.Forward: never}, "cross_node, for good: x"},
		"socket: one is stuck":               {nodebinding.Socket, map[sink.Name]func(context.Context, int) error{sink.Log: fine, sink.Forward: stuck}, "context deadline exceeded"},
		"socket: one panics":                 {nodebinding.Socket, map[sink.Name]func(context.Context, int) error{sink.Log: panics}, "internal: the sink panicked"},
		"deployment: only the store counts":  {nodebinding.Deployment, map[sink.Name]func(context.Context, int) error{sink.Store: fine, sink.Kubernetes: busy}, ""},
		"deployment: the store is busy":      {nodebinding.Deployment, map[sink.Name]func(context.Context, int) error{sink.Store: busy, sink.Kubernetes: fine}, "busy: x"},
		"deployment: without a store all do": {nodebinding.Deployment, map[sink.Name]func(context.Context, int) error{sink.Kubernetes: busy}, "busy: x"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var sinks []sink.Sink
			for n, do := range tc.do {
				sinks = append(sinks, &outlet{name: n, do: do})
			}
			got := ""
			if err := newDirect(t, tc.role, sinks...).Append(t.Context(), keyed("k")); err != nil {
				got = err.Error()
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestSinksThatNobodyWaitsForGetTheirBatchesInOrder(t *testing.T) {
	t.Parallel()
	store := &outlet{name: sink.Store}
	nodes := &outlet{name: sink.Kubernetes, do: func(_ context.Context, attempt int) error {
		if attempt == 1 {
			return sink.Retry(sink.Unreachable, errors.New("x"))
		}
		return nil
	}}
	d := newDirect(t, nodebinding.Deployment, store, nodes)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx, 5*time.Second) }()
	want := []string{"1", "2", "3"}
	for _, k := range want {
		must(t, d.Append(t.Context(), keyed(k)))
	}
	cancel() // what is queued is still delivered
	must(t, <-done)
	if diff := cmp.Diff(want, nodes.got()); diff != "" {
		t.Errorf("kubernetes (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, store.got()); diff != "" {
		t.Errorf("store (-want +got):\n%s", diff)
	}
}

func TestAFullLaneDropsAndAStuckSinkIsCut(t *testing.T) {
	t.Parallel()
	nodes := &outlet{name: sink.Kubernetes, do: func(ctx context.Context, _ int) error { return sink.Retry(sink.Busy, errors.New("x")) }}
	d := newDirect(t, nodebinding.Deployment, &outlet{name: sink.Store}, nodes)
	for range laneQueue + 7 {
		must(t, d.Append(t.Context(), keyed("k")))
	}
	var got prometheus.Metric = d.metrics.dropped.WithLabelValues(string(sink.Kubernetes))
	if n := value(t, got); n != 7 {
		t.Errorf("%v dropped, want 7", n)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	begin := time.Now()
	must(t, d.Run(ctx, 50*time.Millisecond))
	if took := time.Since(begin); took > 5*time.Second {
		t.Errorf("stopping took %s", took)
	}
}

// TestWhatWaitsInMemoryIsBoundedInBytes queues batches that few in number are large.
func TestWhatWaitsInMemoryIsBoundedInBytes(t *testing.T) {
	t.Parallel()
	away := errors.New("x")
	nodes := &outlet{name: sink.Kubernetes, do: func(context.Context, int) error { return sink.Final(sink.Refused, nodebinding.Internal, away) }}
	d := newDirect(t, nodebinding.Deployment, &outlet{name: sink.Store}, nodes)
	large := keyed("k")
	large.Events[0].Message = strings.Repeat("x", 4<<20)
	for range 20 {
		must(t, d.Append(t.Context(), large))
	}
	dropped := d.metrics.dropped.WithLabelValues(string(sink.Kubernetes))
	if n := value(t, dropped); n != 10 { // ten that take up to 6 MiB fit into 64
		t.Errorf("%v dropped, want 10", n)
	}
	many := keyed("k") // few bytes as they were sent, and a megabyte in the memory
	for range weight.DefaultEvents {
		many.Events = append(many.Events, &healtheventv1.HealthEvent{})
	}
	for range 100 {
		must(t, d.Append(t.Context(), many))
	}
	if n := value(t, dropped); n < 100 {
		t.Errorf("%v dropped, want nearly all that do not fit", n)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	must(t, d.Run(ctx, time.Second))
	if left := d.lazy[0].waiting.Load(); left != 0 {
		t.Errorf("%d bytes are still counted", left)
	}
}

func TestDirectNeedsItsParts(t *testing.T) {
	t.Parallel()
	metrics, err := NewMetrics(prometheus.NewRegistry())
	must(t, err)
	to := []sink.Sink{&outlet{name: sink.Log}}
	for what, attempt := range map[string]func() (*Direct, error){
		"sinks":     func() (*Direct, error) { return NewDirect(nil, nodebinding.Socket, time.Second, metrics) },
		"a timeout": func() (*Direct, error) { return NewDirect(to, nodebinding.Socket, 0, metrics) },
		"metrics":   func() (*Direct, error) { return NewDirect(to, nodebinding.Socket, time.Second, nil) },
	} {
		if _, err := attempt(); err == nil || err.Error() != "connector: sinks, a timeout or metrics are missing" {
			t.Errorf("without %s: %v", what, err)
		}
	}
}
