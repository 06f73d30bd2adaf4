//go:build unix

package sinks

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	healtheventv1 "github.com/lanyard-k8s/lanyard/api/healthevent/v1"
	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/connector/sink"
	"github.com/lanyard-k8s/lanyard/connector/sink/kubernetes"
	"github.com/lanyard-k8s/lanyard/connector/spool"
	"github.com/lanyard-k8s/lanyard/test/cluster"
	"github.com/lanyard-k8s/lanyard/test/timing"
)

// TestAnAPIServerThatIsAway pauses the API server while batches arrive in the spool. It runs before the parallel tests.
func TestAnAPIServerThatIsAway(t *testing.T) {
	node := newNode(t, "node-away")
	s := newSink(t, connector(t, wire.AccountSocketConnector, node.Name), func(o *kubernetes.Options) { o.OwnNode = node.Name })
	failed := make(chan sink.Reason, 1)
	queue, err := spool.Open(spool.Options{
		Directory: filepath.Join(t.TempDir(), "spool"), Bytes: 1 << 20, Timeout: 2 * time.Second, RetryMost: time.Second,
		Sinks: []sink.Sink{s}, Decide: func(sink.Batch) error { return nil }, NodeUID: func() string { return string(node.UID) },
		Hooks: spool.Hooks{Attempted: func(a spool.Attempt) {
			if a.Err != nil {
				select {
				case failed <- a.Err.Reason:
				default:
				}
			}
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- queue.Run(ctx) }()
	cp := controlPlane(t)
	if err := cp.Pause(cluster.APIServer); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cp.Resume(cluster.APIServer) }) // the other tests need it, whatever becomes of this one
	for i := range 5 {
		if err := queue.Append(t.Context(), batch(fatal(node.Name, "GpuXid", fmt.Sprint(i)))); err != nil {
			t.Error(err)
		}
	}
	if why := timing.Next(t, time.Minute, "a delivery fails", failed); why != sink.Timeout && why != sink.Unreachable {
		t.Errorf("a paused API server is %s", why)
	}
	if err := cp.Resume(cluster.APIServer); err != nil {
		t.Fatal(err)
	}
	soon, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	if err := queue.Drain(soon); err != nil {
		t.Error(err)
	}
	cancel()
	if err := timing.Next(t, time.Minute, "the queue ends with its context", ended); err != nil {
		t.Error(err)
	}
	if err := queue.Close(); err != nil {
		t.Error(err)
	}
	if got := messages(stored(t, node.Name))["GpuXid"]; strings.Count(got, "GPU:") != 5 {
		t.Errorf("the condition says %q", got)
	}
}

// TestOnlyOurConditions sends what a publisher might try, and compares everything else of the node byte for byte.
func TestOnlyOurConditions(t *testing.T) {
	t.Parallel()
	node := newNode(t, "node-ours")
	s := newSink(t, connector(t, wire.AccountSocketConnector, node.Name), func(o *kubernetes.Options) {
		o.OwnNode, o.Foreign = node.Name, []string{"KernelDeadlock"}
	})
	before := others(stored(t, node.Name))
	long := strings.Repeat("x;ErrorCode:1 ", 10<<10/14)
	var events []*healtheventv1.HealthEvent
	for _, check := range []string{
		"Ready", "MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable", "ready", "KernelDeadlock", "Theirs", "", " ", "Ready ", "Ready\n", long,
		"a;b", "a/b", "a\x00b", `a","status":"True`, "-a", "Réady",
	} {
		for _, kind := range []func(*healtheventv1.HealthEvent){
			func(*healtheventv1.HealthEvent) {}, func(e *healtheventv1.HealthEvent) { e.IsHealthy = true }, func(e *healtheventv1.HealthEvent) { e.IsFatal = false },
		} {
			e := fatal(node.Name, check, "0")
			kind(e)
			if check == "Theirs" && !e.GetIsFatal() && !e.GetIsHealthy() {
				continue // a core Event of that name is nobody's
			}
			events = append(events, e)
		}
	}
	refused := len(events)
	hostile := fatal(node.Name, "GpuXid", "0;Ready:True\nGPU:1")
	hostile.Message, hostile.ErrorCode = long+"\n\x00\x1b]0;", []string{long, "a;b", "Recommended Action=NONE"}
	events = append(events, hostile)
	report, err := s.Deliver(t.Context(), batch(events...))
	if err != nil {
		t.Fatal(err)
	}
	if report.Refused() != refused || report[sink.Written] != 1 {
		t.Errorf("of %d events %v", len(events), report)
	}
	after := stored(t, node.Name)
	if diff := cmp.Diff(before, others(after)); diff != "" {
		t.Errorf("more changed than conditions of ours (-before +after):\n%s", diff)
	}
	got := messages(after)
	if len(got) != 1 || len(got["GpuXid"]) > 1100 || strings.Count(got["GpuXid"], ";") != 0 || strings.ContainsAny(got["GpuXid"], "\n\x00\x1b") {
		t.Errorf("conditions %q", got)
	}
	deliver(t, s, batch(&healtheventv1.HealthEvent{CheckName: "GpuXid", NodeName: node.Name, IsHealthy: true}), sink.Report{sink.Written: 1})
	if got := messages(stored(t, node.Name))["GpuXid"]; got != "False No Health Failures" {
		t.Errorf("after health it says %q", got)
	}
}

// TestThePolicyStandsBehindTheSink lets a sink that does not restrain itself run into the policy.
func TestThePolicyStandsBehindTheSink(t *testing.T) {
	t.Parallel()
	own, other := newNode(t, "node-own"), newNode(t, "node-other")
	c := connector(t, wire.AccountSocketConnector, own.Name)
	fenced(t, c, other.Name)
	s := newSink(t, c, nil)
	warning := fatal(other.Name, "GpuTemp", "0")
	warning.IsFatal = false
	deliver(t, s, batch(fatal(other.Name, "GpuXid", "0"), warning), sink.Report{sink.RefusedByServer: 2})
	deliver(t, s, batch(fatal(own.Name, "GpuXid", "0")), sink.Report{sink.Written: 1})
	if got := messages(stored(t, other.Name)); len(got) > 0 {
		t.Errorf("the other node says %v", got)
	}
}

// TestReplicasLoseNothingOfEachOther has two connectors, and a kubelet, write to one node at once.
func TestReplicasLoseNothingOfEachOther(t *testing.T) {
	t.Parallel()
	node := newNode(t, "node-shared")
	kubelet := admin(t)
	stop := make(chan struct{})
	var beating, writing sync.WaitGroup
	beating.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			case <-time.After(5 * time.Millisecond): // far more often than a kubelet
			}
			body := fmt.Sprintf(`{"status":{"conditions":[{"type":"Ready","status":"False","message":"beat %d"}]}}`, i)
			if _, err := kubelet.CoreV1().Nodes().Patch(t.Context(), node.Name, types.StrategicMergePatchType, []byte(body), metav1.PatchOptions{}, "status"); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for r := range 2 {
		s := newSink(t, connector(t, wire.AccountDeploymentConnector, node.Name), nil)
		writing.Go(func() {
			for i := range 8 {
				for {
					_, err := s.Deliver(t.Context(), batch(fatal(node.Name, "GpuXid", fmt.Sprint(r*8+i))))
					if err == nil {
						break
					}
					if e := sink.Classify(err); e.Final || e.Reason != sink.Conflict {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	writing.Wait()
	close(stop)
	beating.Wait()
	got := messages(stored(t, node.Name))["GpuXid"]
	for i := range 16 {
		if !strings.Contains(got, fmt.Sprintf("GPU:%d ", i)) {
			t.Errorf("GPU %d is missing in %q", i, got)
		}
	}
}

func TestAnAccountWithoutRights(t *testing.T) {
	t.Parallel()
	node := newNode(t, "node-rights")
	s := newSink(t, connector(t, "nobody", node.Name), nil)
	_, err := s.Deliver(t.Context(), batch(fatal(node.Name, "GpuXid", "0")))
	if e := sink.Classify(err); e == nil || e.Final || e.Reason != sink.Unauthorized {
		t.Errorf("got %v", err)
	}
	deliver(t, newSink(t, connector(t, wire.AccountDeploymentConnector, node.Name), nil), batch(fatal("node-that-is-not", "GpuXid", "0")), sink.Report{sink.RefusedNode: 1})
}
