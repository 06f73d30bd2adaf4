//go:build unix

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"syscall"

	"github.com/lanyard-k8s/lanyard/test/cluster/nodes"
)

// hold runs the cluster and serves requests until it is told to stop. Its output is the log that up shows.
func hold() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// The terminal of whoever called up may close.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	c, err := nodes.Start(ctx, nodes.Options{Name: "cluster", Out: os.Stdout})
	if err != nil {
		return err
	}
	if err := furnish(ctx, c); err != nil {
		return errors.Join(err, c.Stop())
	}
	_ = os.Remove(path("sock")) // of one that was killed
	l, err := net.Listen("unix", path("sock"))
	if err != nil {
		return errors.Join(err, c.Stop())
	}
	context.AfterFunc(ctx, func() { _ = l.Close() })
	for {
		connection, err := l.Accept()
		if err != nil {
			return c.Stop()
		}
		if stopped := serve(ctx, c, connection); stopped {
			return l.Close()
		}
	}
}

// serve answers one request; it returns true when the cluster has been stopped.
func serve(ctx context.Context, c *nodes.Cluster, connection net.Conn) bool {
	defer connection.Close()
	var r request
	if err := json.NewDecoder(connection).Decode(&r); err != nil {
		return false
	}
	var a answer
	var err error
	switch r.Do {
	case "status":
		a = answer{Kubeconfig: c.Kubeconfig(), Bin: bin(c)}
	case "load":
		err = c.Load(ctx, r.Paths...)
	case "stop":
		err = c.Stop()
	default:
		err = fmt.Errorf("no request is called %q", r.Do)
	}
	if err != nil {
		a.Error = err.Error()
	}
	_ = json.NewEncoder(connection).Encode(a)
	return r.Do == "stop"
}
