package postgres_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"

	"github.com/lanyard-k8s/lanyard/delegation"
	"github.com/lanyard-k8s/lanyard/delegation/delegationtest"
	"github.com/lanyard-k8s/lanyard/delegation/postgres"
)

// childConn and childSeed make a copy of the test write to a database until it is killed.
const (
	childConn = "LANYARD_TEST_POSTGRES_CONN"
	childSeed = "LANYARD_TEST_POSTGRES_SEED"
)

func child(conn string) int {
	s, err := postgres.Open(context.Background(), postgres.Options{Conn: conn})
	if err == nil {
		err = delegationtest.Hammer(context.Background(), s, os.Stdout, os.Getenv(childSeed))
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// TestTwentyKills kills a writing exchange twenty times.
func TestTwentyKills(t *testing.T) {
	t.Parallel()
	o := shared.migrated(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	acknowledged := delegationtest.Acknowledged{}
	for round := range 20 {
		cmd := exec.CommandContext(t.Context(), self)
		cmd.Env = append(os.Environ(), childConn+"="+o.Conn, fmt.Sprintf("%s=%d", childSeed, round))
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		reader := bufio.NewReader(out)
		if acknowledged.Read(reader, 5+7*round) == 0 {
			t.Error("the child wrote nothing")
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		acknowledged.Read(reader, 0)
		if err := cmd.Wait(); err == nil {
			t.Error("the child ended by itself")
		}
	}
	s := open(t, o)
	defer func() { _ = s.Close() }()
	acknowledged.Check(t, s)
	t.Logf("%d rows acknowledged over 20 kills", len(acknowledged))
}

// TestTheServerIsKilled kills a server of its own under load. The store says that it is unavailable, comes back with it,
// and has all that was acknowledged.
func TestTheServerIsKilled(t *testing.T) {
	t.Parallel()
	own := &server{}
	t.Cleanup(own.stop)
	o := own.migrated(t)
	s := open(t, o)
	defer func() { _ = s.Close() }()
	acknowledged := delegationtest.Acknowledged{}
	for round := range 3 {
		out, in := io.Pipe()
		ended := make(chan error, 1)
		go func() {
			err := delegationtest.Hammer(t.Context(), s, in, fmt.Sprint(round))
			_ = in.Close()
			ended <- err
		}()
		reader := bufio.NewReader(out)
		acknowledged.Read(reader, 50)
		own.kill()
		acknowledged.Read(reader, 0)
		if err := <-ended; !errors.Is(err, delegation.ErrUnavailable) {
			t.Errorf("writing to a dead server: error is %v, want ErrUnavailable", err)
		}
		if _, err := s.Get(t.Context(), "x"); !errors.Is(err, delegation.ErrUnavailable) {
			t.Errorf("asking a dead server: error is %v, want ErrUnavailable", err)
		}
		if _, err := postgres.Open(t.Context(), o); !errors.Is(err, delegation.ErrUnavailable) {
			t.Errorf("opening a dead server: error is %v, want ErrUnavailable", err)
		}
		if err := own.run(); err != nil {
			t.Fatalf("start anew: %v\n%s", err, own.log.String())
		}
	}
	acknowledged.Check(t, s)
	t.Logf("%d rows acknowledged over 3 kills", len(acknowledged))
}
