// Command webhook is the admission server: it answers the API server's reviews of pods and workloads. See `webhook --help`.
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
