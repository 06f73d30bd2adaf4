package main

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	healtheventv1 "github.com/lanyard-k8s/lanyard/api/healthevent/v1"
	"github.com/lanyard-k8s/lanyard/client"
	"github.com/lanyard-k8s/lanyard/test/script"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"connector": main})
}

func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, script.Params([]string{"PORT", "METRICS"}, nil, map[string]script.Command{"publish": publish}))
}

// publish reports one event about a node over a socket.
func publish(ts *testscript.TestScript, neg bool, args []string) {
	p, err := client.NewPublisher(client.Options{
		Target: "unix://" + filepath.Clean(ts.MkAbs(args[0])), ServerUser: client.AnyUser, AllowWritableDirectory: true,
	})
	ts.Check(err)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	err = p.Publish(ctx, &healtheventv1.HealthEvents{Version: 1, Events: []*healtheventv1.HealthEvent{{CheckName: "GpuXidError", IsFatal: true, NodeName: args[1]}}})
	err = errors.Join(err, p.Close(ctx))
	if neg && err == nil {
		ts.Fatalf("was accepted")
	}
	if !neg {
		ts.Check(err)
	}
}
