package forward

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/emptypb"

	healtheventv1 "github.com/lanyard-k8s/lanyard/api/healthevent/v1"
	"github.com/lanyard-k8s/lanyard/certs"
	"github.com/lanyard-k8s/lanyard/connector/nodebinding"
	"github.com/lanyard-k8s/lanyard/connector/sink"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// call is what a recorder was sent.
type call struct {
	ids  []string
	key  []string
	auth []string
}

// recorder is a connector that notes its calls and answers as a test wants.
type recorder struct {
	healtheventv1.UnimplementedPlatformConnectorServer
	answer func(context.Context) error

	mu    sync.Mutex
	calls []call
}

func (r *recorder) HealthEventOccurredV1(ctx context.Context, events *healtheventv1.HealthEvents) (*emptypb.Empty, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	c := call{key: md.Get("idempotency-key"), auth: md.Get("authorization")}
	for _, e := range events.GetEvents() {
		c.ids = append(c.ids, e.GetId())
	}
	r.mu.Lock()
	r.calls = append(r.calls, c)
	r.mu.Unlock()
	if r.answer != nil {
		if err := r.answer(ctx); err != nil {
			return nil, err
		}
	}
	return &emptypb.Empty{}, nil
}

func (r *recorder) got() []call {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]call(nil), r.calls...)
}

func serve(t *testing.T, l net.Listener, r *recorder, options ...grpc.ServerOption) {
	t.Helper()
	srv := grpc.NewServer(options...)
	healtheventv1.RegisterPlatformConnectorServer(srv, r)
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(l) }()
	t.Cleanup(func() {
		srv.Stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// onSocket serves on a Unix socket and returns its path.
func onSocket(t *testing.T, r *recorder, options ...grpc.ServerOption) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "l") // t.TempDir is too long for a socket's path
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	serve(t, l, r, options...)
	return path
}

// tlsSide is a connector behind TLS, with the files of one that forwards to it.
type tlsSide struct {
	dir       string
	authority *certs.Authority
	options   Options
}

// onTLS serves over TLS under a certificate for connector.test.
func onTLS(t *testing.T, r *recorder) tlsSide {
	t.Helper()
	side := tlsSide{dir: t.TempDir()}
	var err error
	if side.authority, err = certs.NewAuthority("test", time.Now(), time.Hour); err != nil {
		t.Fatal(err)
	}
	pair, err := side.authority.Issue(time.Now(), time.Hour, "connector.test")
	if err != nil {
		t.Fatal(err)
	}
	if err := pair.Write(side.dir); err != nil {
		t.Fatal(err)
	}
	server, err := credentials.NewServerTLSFromFile(filepath.Join(side.dir, certs.CertFile), filepath.Join(side.dir, certs.KeyFile))
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	serve(t, l, r, grpc.Creds(server))
	side.options = Options{
		Address: l.Addr().String(), CAFile: filepath.Join(side.dir, certs.CAFile), ServerName: "connector.test",
		TokenFile: write(t, "token-1\n"),
	}
	return side
}

func write(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func newSink(t *testing.T, o Options) *Sink {
	t.Helper()
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func batch(podUID, key string, ids ...string) sink.Batch {
	var events []*healtheventv1.HealthEvent
	for _, id := range ids {
		events = append(events, &healtheventv1.HealthEvent{Id: id, CheckName: "GpuXidError", NodeName: "node-a"})
	}
	b := sink.NewBatch(events, sink.Caller{PodUID: podUID}, nodebinding.NodeLocal, time.Unix(1_700_000_000, 0))
	b.Key = key
	return b
}
