// Command exchange turns the subject tokens of managed jobs into access tokens of the people who submitted them, publishes the keys
// that these are verified with, and answers gateways. See `exchange --help`.
package main

import (
	"context"
	"os"

	"github.com/lanyard-k8s/lanyard/internal/cli"
	"github.com/lanyard-k8s/lanyard/internal/lifecycle"
)

func main() {
	os.Exit(realMain())
}

func realMain() int {
	ctx, stop := lifecycle.Signals(context.Background())
	defer stop()
	return cli.Execute(ctx, newRoot(), os.Args[1:], os.Stdout, os.Stderr)
}
