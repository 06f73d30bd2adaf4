package main

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/lanyard-k8s/lanyard/api/jobs"
)

// TestTwoSignalsAtOnceStillStopTheJob: whoever presses Ctrl-C twice in a moment has left, and the job is told to stop all the same.
func TestTwoSignalsAtOnceStillStopTheJob(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "lanyard-r-") // a socket's path has to be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	stopped := make(chan string, 1)
	srv := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		stopped <- r.Method + " " + r.URL.Path
	})}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	t.Cleanup(func() {
		_ = srv.Close()
		<-served
	})
	a := &attached{c: newJobsCaller(path), job: jobs.Job{ID: "0a1b2c3d4e5f"}, s: streams{out: io.Discard, err: io.Discard}}
	ctx, leave := context.WithCancelCause(t.Context())
	signals := make(chan os.Signal, 2)
	signals <- syscall.SIGTERM
	signals <- syscall.SIGINT
	a.heed(ctx, signals, make(chan struct{}), leave)
	if !errors.Is(context.Cause(ctx), errLeft) {
		t.Errorf("the second signal does not leave: %v", context.Cause(ctx))
	}
	select {
	case got := <-stopped:
		if got != "POST /v1/jobs/0a1b2c3d4e5f/stop" {
			t.Errorf("got %s", got)
		}
	case <-time.After(20 * time.Second):
		t.Error("nobody was told to stop the job")
	}
}
