package main

import (
	"bytes"
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	healtheventv1 "github.com/lanyard-k8s/lanyard/api/healthevent/v1"
)

// judge is a connector that takes one header and no other, and remembers what it was shown.
type judge struct {
	healtheventv1.UnimplementedPlatformConnectorServer
	takes string
	shown chan []string
}

func (j *judge) HealthEventOccurredV1(ctx context.Context, _ *healtheventv1.HealthEvents) (*emptypb.Empty, error) {
	headers := metadata.ValueFromIncomingContext(ctx, "authorization")
	j.shown <- headers
	if len(headers) == 1 && headers[0] == j.takes {
		return &emptypb.Empty{}, nil
	}
	out, err := status.New(codes.Unavailable, "not now").WithDetails(&errdetails.ErrorInfo{Reason: "OUTAGE", Domain: "here"})
	if err != nil {
		return nil, err
	}
	return nil, out.Err()
}

// TestAttempts shows that what is forged differs from the pod's own token and from each other, and that answers are told in full.
func TestAttempts(t *testing.T) {
	t.Parallel()
	own := token(t, map[string]any{"kubernetes.io": map[string]any{"node": map[string]string{"name": "node1"}}})
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(own), 0o600); err != nil {
		t.Fatal(err)
	}
	j := &judge{takes: "Bearer " + own, shown: make(chan []string, 16)}
	socket := filepath.Join(t.TempDir(), "c.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	healtheventv1.RegisterPlatformConnectorServer(server, j)
	go func() { _ = server.Serve(l) }()
	t.Cleanup(server.Stop)

	got := mustRun(t, 0, "attempt", "--target=unix://"+socket, "--token-file="+file, "--as=own,none,tampered,renamed,unsigned,garbage,twice",
		"--node=node2", "--count=7", "--interval=1ms")
	for _, want := range []string{
		`"as":"own","id":"` + hostname() + `-1","code":"OK"`, `"as":"twice"`, `"code":"Unavailable","message":"not now","reason":"OUTAGE","domain":"here"`,
		`{"answers":{"OK":1,"Unavailable":6}}`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("attempt printed %s, want %s", got, want)
		}
	}
	seen := map[string]bool{}
	for range 7 {
		seen[strings.Join(<-j.shown, " and ")] = true
	}
	if len(seen) != 7 {
		t.Errorf("%d of the 7 kinds of call differ", len(seen))
	}
}

func TestAttemptKinds(t *testing.T) {
	t.Parallel()
	if got := mustRun(t, 2, "attempt", "--as=own,magic"); !strings.Contains(got, "magic") {
		t.Errorf("it said %s", got)
	}
}

// TestSquat holds the squatter to what tests rely on: who connects is counted, and what it sends.
func TestSquat(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	socket, aside := filepath.Join(dir, "c.sock"), filepath.Join(dir, "aside.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	ctx, cancel := context.WithCancel(t.Context())
	var out bytes.Buffer
	ended := make(chan int)
	go func() { ended <- run(ctx, []string{"squat", "--socket=" + socket, "--aside=" + aside}, &out) }()
	for deadline := time.Now().Add(30 * time.Second); !exists(aside) || !exists(socket); {
		if time.Now().After(deadline) {
			t.Fatal("the socket was not taken")
		}
		<-time.After(time.Millisecond)
	}
	for _, say := range []string{"", "secret"} {
		var conn net.Conn
		for conn, err = net.Dial("unix", socket); err != nil && t.Context().Err() == nil; conn, err = net.Dial("unix", socket) {
			<-time.After(time.Millisecond) // it has its name before it is listened on
		}
		if _, err := conn.Write([]byte(say)); err != nil {
			t.Fatal(err)
		}
		if err := conn.(*net.UnixConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		_, _ = conn.Read(make([]byte, 1)) // its end says that it was counted
		_ = conn.Close()
	}
	cancel()
	if code := <-ended; code != 0 || !strings.Contains(out.String(), `{"connections":2,"bytes":6}`) {
		t.Errorf("squat ended with %d and printed %s", code, &out)
	}
	if !exists(socket) {
		t.Error("it took its file away")
	}
}
