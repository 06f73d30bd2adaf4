package connector

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/timestamppb"
	authenticationv1 "k8s.io/api/authentication/v1"

	healtheventv1 "github.com/lanyard-k8s/lanyard/api/healthevent/v1"
	"github.com/lanyard-k8s/lanyard/connector/nodebinding"
	"github.com/lanyard-k8s/lanyard/connector/sink"
	"github.com/lanyard-k8s/lanyard/internal/liveness"
	"github.com/lanyard-k8s/lanyard/internal/tokenreview"
)

// benchServer makes the test binary a server, so that its CPU time can be told from the client's: "echo" is bare grpc-go, "desk"
// the connector, "tls" the connector over
// TLS. benchSocket is where it listens, or where it writes its address to.
const (
	benchServer = "LANYARD_BENCH_SERVER"
	benchSocket = "LANYARD_BENCH_SOCKET"
)

func TestMain(m *testing.M) {
	switch kind := os.Getenv(benchServer); kind {
	case "":
		os.Exit(m.Run())
	case "echo", "desk", "tls":
		if err := serveBench(kind, os.Getenv(benchSocket)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

// serveBench serves until its input ends.
func serveBench(kind, path string) error {
	ctx, cancel := context.WithCancel(context.Background())
	go func() { _, _ = io.Copy(io.Discard, os.Stdin); cancel() }()
	if kind == "echo" {
		l, err := net.Listen("unix", path)
		if err != nil {
			return err
		}
		s := grpc.NewServer()
		healtheventv1.RegisterPlatformConnectorServer(s, echo{})
		context.AfterFunc(ctx, s.Stop)
		fmt.Println("up")
		return s.Serve(l)
	}
	server, err := benchDesk()
	if err != nil {
		return err
	}
	if kind == "tls" {
		return serveBenchTLS(ctx, path)
	}
	u, err := NewUnixSocket(path, 0, -1)
	if err != nil {
		return err
	}
	server.UseSocket(u)
	go func() {
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for server.Check() != nil {
			<-tick.C
		}
		fmt.Println("up")
	}()
	return server.RunSocket(ctx)
}

// echo is the least that a server can do.
type echo struct {
	healtheventv1.UnimplementedPlatformConnectorServer
}

func (echo) HealthEventOccurredV1(context.Context, *healtheventv1.HealthEvents) (*emptypb.Empty, error) {
	return &emptypb.Empty{}, nil
}

// yes believes everybody, without a wait.
type yes struct{}

func (yes) Review(context.Context, string, []string) (authenticationv1.TokenReviewStatus, error) {
	return accepted(identity{monitor, "pod-1", own, ownUID}), nil
}

// living is a watch that knows every pod.
type living struct{}

func (living) State(string, time.Time) liveness.State { return liveness.Alive }
func (living) Subscribe(func(string)) func()          { return func() {} }

// nowhere is an Intake that keeps nothing: the spool and the sinks have benchmarks of their own.
type nowhere struct{}

func (nowhere) Append(context.Context, sink.Batch) error { return nil }

func benchOptions() (Options, *tokenreview.Reviewer, error) {
	m, err := NewMetrics(prometheus.NewRegistry())
	if err != nil {
		return Options{}, nil, err
	}
	r, err := tokenreview.NewReviewer(tokenreview.Options{Backend: yes{}, Audience: audience, Pods: living{}, Recorder: m, QPS: 1e9, Burst: 1e9})
	return Options{
		Rules: nodebinding.Rules{Role: nodebinding.Socket, OwnNode: own}, Mode: nodebinding.Enforce, Reviewer: r, Nodes: fixedNodes{own: ownUID},
		Intake: nowhere{}, Timeout: 4 * time.Second, Metrics: m, Recent: NewRecent(), Log: logr.Discard(),
	}, r, err
}

func benchDesk() (*Server, error) {
	o, r, err := benchOptions()
	if err != nil {
		return nil, err
	}
	d, err := NewDesk(o)
	if err != nil {
		return nil, err
	}
	return NewServer(ServerOptions{
		Desk: d, Limits: Limits{MessageBytes: 4 << 20, HeaderBytes: 16 << 10, Streams: 128, Connections: 256, Request: 4 * time.Second, InFlight: 512 << 20},
		NewBucket: r.NewBucket, Drain: time.Second, Metrics: o.Metrics, Log: logr.Discard(),
	})
}

// child is a server in a process of its own, with clients on it.
type child struct {
	pid   int
	dir   string
	calls []healtheventv1.PlatformConnectorClient
}

func startChild(b *testing.B, kind string) *child {
	b.Helper()
	dir, err := os.MkdirTemp("", "bench")
	must(b, err)
	socket := filepath.Join(dir, "s.sock")
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), benchServer+"="+kind, benchSocket+"="+socket)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	must(b, err)
	out, err := cmd.StdoutPipe()
	must(b, err)
	must(b, cmd.Start())
	b.Cleanup(func() { _ = in.Close(); _ = cmd.Wait(); _ = os.RemoveAll(dir) })
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "up\n" {
		b.Fatalf("the %s server does not come up: %q, %v", kind, line, err)
	}
	c := &child{pid: cmd.Process.Pid, dir: dir}
	for range 4 {
		conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
		must(b, err)
		b.Cleanup(func() { _ = conn.Close() })
		c.calls = append(c.calls, healtheventv1.NewPlatformConnectorClient(conn))
	}
	return c
}

// cpu is what the server has used so far.
func (c *child) cpu(b *testing.B) time.Duration {
	b.Helper()
	var total time.Duration
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", c.pid))
	if err != nil || len(tasks) == 0 {
		b.Skip("this system does not tell a process's CPU time in nanoseconds")
	}
	for _, task := range tasks {
		raw, err := os.ReadFile(task)
		if err != nil {
			continue // a thread that has ended; Go's do not
		}
		ns, err := strconv.ParseInt(strings.Fields(string(raw))[0], 10, 64)
		must(b, err)
		total += time.Duration(ns)
	}
	return total
}

// load makes n calls from 32 callers over 4 connections.
func (c *child) load(b *testing.B, n int, token string, batch *healtheventv1.HealthEvents) {
	b.Helper()
	ctx := metadata.AppendToOutgoingContext(context.Background(), keyAuthorization, "Bearer "+token)
	var left atomic.Int64
	left.Store(int64(n))
	var callers sync.WaitGroup
	for i := range 32 {
		callers.Go(func() {
			for left.Add(-1) >= 0 {
				call, cancel := context.WithTimeout(ctx, 5*time.Second)
				if _, err := c.calls[i%4].HealthEventOccurredV1(call, batch); err != nil {
					b.Error(err)
				}
				cancel()
			}
		})
	}
	callers.Wait()
}

// realistic is a batch as a GPU monitor sends it.
func realistic(n int) *healtheventv1.HealthEvents {
	b := &healtheventv1.HealthEvents{Version: 1}
	for range n {
		b.Events = append(b.Events, &healtheventv1.HealthEvent{
			Version: 1, Agent: "gpu-health-monitor", ComponentClass: "GPU", CheckName: "GpuXidError", IsFatal: true, Message: "XID 79: GPU has fallen off the bus",
			RecommendedAction: healtheventv1.RecommendedAction_RESTART_BM, ErrorCode: []string{"79"}, NodeName: own,
			EntitiesImpacted:   []*healtheventv1.Entity{{EntityType: "GPU_UUID", EntityValue: "GPU-6b8f1c9e-0d3e-4f7c-8f43-0a0b1c2d3e4f"}},
			Metadata:           map[string]string{"driver": "575.57.08"},
			GeneratedTimestamp: timestamppb.New(time.Unix(1_800_000_000, 0)),
		})
	}
	return b
}

// realToken is as long as an API server's.
func realToken() string {
	t := minted(1)
	return t + strings.Repeat("c3Nz", (1008-len(t))/4)
}

// BenchmarkConnector measures the CPU that a server process uses for a batch of a known caller, beside a bare grpc-go server
// that is sent the same bytes in the same run, a thousand calls each in turns: the machine's other load meets both.
func BenchmarkConnector(b *testing.B) {
	for _, events := range []int{1, 10, 100} {
		b.Run(fmt.Sprintf("events=%d", events), func(b *testing.B) {
			bare, desk := startChild(b, "echo"), startChild(b, "desk")
			token, batch := realToken(), realistic(events)
			bare.load(b, 500, token, batch)
			desk.load(b, 500, token, batch)
			var used [2]time.Duration
			b.ResetTimer()
			for done := 0; done < b.N; done += 1000 {
				n := min(1000, b.N-done)
				for i, c := range []*child{bare, desk} {
					before := c.cpu(b)
					c.load(b, n, token, batch)
					used[i] += c.cpu(b) - before
				}
			}
			micros := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 / float64(b.N) }
			b.ReportMetric(micros(used[0]), "bare-us/op")
			b.ReportMetric(micros(used[1]), "server-us/op")
			b.ReportMetric(micros(used[1])/micros(used[0]), "ratio")
			b.ReportMetric(float64(events)*1e6/micros(used[1]), "events/s-core")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkDesk measures the desk alone: a known caller, and a token that has to be reviewed.
func BenchmarkDesk(b *testing.B) {
	o, r, err := benchOptions()
	must(b, err)
	defer r.Close()
	d, err := NewDesk(o)
	must(b, err)
	b.Run("known", func(b *testing.B) {
		ctx, batch := connected(incoming(context.Background(), bearer(realToken()))), realistic(1)
		b.ReportAllocs()
		for b.Loop() {
			if _, err := d.HealthEventOccurredV1(ctx, batch); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("cold", func(b *testing.B) {
		batch, n := realistic(1), 0
		b.ReportAllocs()
		for b.Loop() {
			n++
			if _, err := d.HealthEventOccurredV1(incoming(context.Background(), bearer(minted(n))), batch); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// connected is the context of a call that came by a connection.
func connected(ctx context.Context) context.Context {
	return peer.NewContext(ctx, &peer.Peer{AuthInfo: &connection{user: -1}})
}

// TestAKnownCallerCostsNoAllocation holds the way from the header to the decision to what gRPC's metadata costs: one copy of the header's slice.
func TestAKnownCallerCostsNoAllocation(t *testing.T) {
	o, r, err := benchOptions()
	must(t, err)
	defer r.Close()
	d, err := NewDesk(o)
	must(t, err)
	ctx, batch := connected(incoming(t.Context(), bearer(realToken()))), realistic(1)
	now := time.Now()
	_ = d.identify(ctx, now)
	got := testing.AllocsPerRun(1000, func() {
		c := d.identify(ctx, now)
		o := nodebinding.Apply(nodebinding.Decide(d.Rules, c.evidence), d.Mode, events(batch.Events))
		d.record(&c, o, batch.Events, now)
		if !o.Allowed() {
			t.Error("refused")
		}
	})
	if got > 1 {
		t.Errorf("%v allocations, want at most the one of gRPC's metadata", got)
	}
}
