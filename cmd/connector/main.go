// Command connector takes health events in and says whose they are: on each node over a Unix socket, or for all nodes over
// TLS. See `connector --help`.
package main

import (
	"context"
	"os"

	"github.com/lanyard-k8s/lanyard/internal/cli"
	"github.com/lanyard-k8s/lanyard/internal/lifecycle"
	"github.com/lanyard-k8s/lanyard/internal/memory"
)

func main() {
	os.Exit(realMain())
}

func realMain() int {
	memory.Heed()
	ctx, stop := lifecycle.Signals(context.Background())
	defer stop()
	return cli.Execute(ctx, newRoot(), os.Args[1:], os.Stdout, os.Stderr)
}
