package main

import (
	"bytes"
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"

	healtheventv1 "github.com/lanyard-k8s/lanyard/api/healthevent/v1"
)

// answering is a connector that gives every call the same answer.
type answering struct {
	healtheventv1.UnimplementedPlatformConnectorServer
	answer error
}

func (a answering) HealthEventOccurredV1(context.Context, *healtheventv1.HealthEvents) (*emptypb.Empty, error) {
	return &emptypb.Empty{}, a.answer
}

func TestPublishSaysWhatBecameOfIt(t *testing.T) {
	t.Parallel()
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("eyJhbGciOiJub25lIn0.e30.bGFueWFyZA"), 0o600); err != nil {
		t.Fatal(err)
	}
	list := filepath.Join(t.TempDir(), "list.json")
	if err := os.WriteFile(list, []byte(`[{"checkName":"A"},{"checkName":"B"}]`), 0o600); err != nil {
		t.Fatal(err)
	}
	one := []string{"--check", "X", "--node", "node-a"}
	for name, tc := range map[string]struct {
		answer   error
		args     []string
		wantCode int
		want     string
	}{
		"one event is accepted":  {nil, one, 0, "accepted: 1 event\n"},
		"two events are":         {nil, []string{"-f", list}, 0, "accepted: 2 events\n"},
		"nothing is said of one": {nil, append([]string{"--quiet"}, one...), 0, ""},
		"a token from another node has nothing to do with --node": {
			status.Error(codes.PermissionDenied, "the token was issued on another node; present it to that node's connector"),
			append([]string{"--token-file", token}, one...), exitFound,
			"lanyard: refused: the token was issued on another node; present it to that node's connector\n",
		},
		"a bad idempotency key has nothing to do with --node": {
			status.Error(codes.InvalidArgument, "the metadata idempotency-key must be given once"), one, exitFound,
			"lanyard: refused: the metadata idempotency-key must be given once\n",
		},
		"no token where one is needed": {
			status.Error(codes.Unauthenticated, "a token is required"), one, exitFound,
			"lanyard: refused: a token is required; give --token-file with the token that is projected into this pod for the connector's audience\n",
		},
		"a token that is refused was given": {
			status.Error(codes.Unauthenticated, "the token has expired; read the token file again"),
			append([]string{"--token-file", token}, one...), exitFound,
			"lanyard: refused: the token has expired; read the token file again\n",
		},
		"no connector": {
			status.Error(codes.Unimplemented, "unknown service"), one, exitFound,
			"lanyard: refused: unknown service; what answers there is no connector\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := append([]string{
				"publish", "--socket", listening(t, answering{answer: tc.answer}), "--server-uid", "-1", "--allow-writable-socket-dir",
			}, tc.args...)
			var said bytes.Buffer
			code := run(args, streams{in: strings.NewReader(""), out: &said, err: &said})
			if code != tc.wantCode || said.String() != tc.want {
				t.Errorf("got %d %q, want %d %q", code, said.String(), tc.wantCode, tc.want)
			}
		})
	}
}

// listening serves a connector on a socket until the test ends.
func listening(t *testing.T, c answering) (socket string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "lanyard") // a test's own directory would make the path too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	socket = filepath.Join(dir, "s.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	healtheventv1.RegisterPlatformConnectorServer(s, c)
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Stop()
		<-served
		_ = os.RemoveAll(dir)
	})
	return socket
}
