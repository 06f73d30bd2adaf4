package connector

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	healtheventv1 "github.com/lanyard-k8s/lanyard/api/healthevent/v1"
	"github.com/lanyard-k8s/lanyard/connector/nodebinding"
	"github.com/lanyard-k8s/lanyard/connector/sink"
	"github.com/lanyard-k8s/lanyard/connector/sink/forward"
	"github.com/lanyard-k8s/lanyard/connector/spool"
)

// otherSide is another connector, behind gRPC, that cannot digest one event.
type otherSide struct {
	healtheventv1.UnimplementedPlatformConnectorServer
	answer error // to a call with the event "poison"

	mu  sync.Mutex
	ids []string
	bad int
}

func (o *otherSide) HealthEventOccurredV1(_ context.Context, events *healtheventv1.HealthEvents) (*emptypb.Empty, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, e := range events.GetEvents() {
		if e.GetId() == "poison" {
			o.bad++
			return nil, o.answer
		}
	}
	for _, e := range events.GetEvents() {
		o.ids = append(o.ids, e.GetId())
	}
	return &emptypb.Empty{}, nil
}

func (o *otherSide) got() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]string{}, o.ids...)
}

// serve serves it on a Unix socket.
func (o *otherSide) serve(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "l") // t.TempDir is too long for a socket's path
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	l, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	healtheventv1.RegisterPlatformConnectorServer(server, o)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String()
}

// TestABatchThatTheOtherSideCannotDigest forwards over gRPC to a server that fails on one batch for ever.
func TestABatchThatTheOtherSideCannotDigest(t *testing.T) {
	t.Parallel()
	for _, code := range []codes.Code{codes.Internal, codes.Unknown, codes.DataLoss} {
		t.Run(code.String(), func(t *testing.T) {
			t.Parallel()
			other := &otherSide{answer: status.Error(code, "it hurts")}
			to, err := forward.New(forward.Options{Socket: other.serve(t)})
			if err != nil {
				t.Fatal(err)
			}
			metrics, err := NewMetrics(prometheus.NewRegistry())
			if err != nil {
				t.Fatal(err)
			}
			queue, err := spool.Open(spool.Options{
				Directory: filepath.Join(t.TempDir(), "spool"), Bytes: 8 << 20, Sinks: []sink.Sink{to}, RetryMost: 5 * time.Millisecond,
				Timeout: 20 * time.Second, Decide: func(sink.Batch) error { return nil },
				GiveUpAttempts: 3, GiveUpAfter: 50 * time.Millisecond, Hooks: metrics.SpoolHooks(),
			})
			if err != nil {
				t.Fatal(err)
			}
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- queue.Run(ctx) }()
			for _, id := range []string{"1", "poison", "2", "3"} {
				b := sink.NewBatch([]*healtheventv1.HealthEvent{{Id: id, CheckName: "GpuXidError", NodeName: own}}, sink.Caller{Username: monitor}, nodebinding.NodeLocal, time.Now())
				if err := queue.Append(t.Context(), b); err != nil {
					t.Fatal(err)
				}
			}
			last, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			if err := queue.Drain(last); err != nil {
				t.Errorf("the batch holds up its publisher's others: %v", err)
			}
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
			if diff := cmp.Diff([]string{"1", "2", "3"}, other.got()); diff != "" {
				t.Errorf("delivered (-want +got):\n%s", diff)
			}
			if n := testutil.ToFloat64(metrics.aside.WithLabelValues(string(spool.GivenUp))); n != 1 || queue.Stats().Aside != 1 || other.bad < 3 {
				t.Errorf("%v batches are counted as given up and %d kept, after %d calls", n, queue.Stats().Aside, other.bad)
			}
			if n := testutil.ToFloat64(metrics.dropped.WithLabelValues(string(sink.Forward))); n != 0 {
				t.Errorf("%v batches are dropped", n)
			}
			if err := queue.Close(); err != nil {
				t.Error(err)
			}
			if err := to.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}
