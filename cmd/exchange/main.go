// Command exchange turns the subject tokens of managed jobs into access tokens of the people who submitted them, publishes the keys
// that these are verified with, and answers gateways. See `exchange --help`.
package main

import (
	"context"
	"os"
	"syscall"

	"github.com/lanyard-k8s/lanyard/internal/cli"
	"github.com/lanyard-k8s/lanyard/internal/lifecycle"
	"github.com/lanyard-k8s/lanyard/internal/memory"
)

// umask keeps others out of every file and directory that the program makes without saying how: keys, records and proofs lie beside
// each other. What others may use, the submitters' socket and the certificate's authority, is given its mode afterwards.
const umask = 0o077

func main() {
	syscall.Umask(umask)
	os.Exit(realMain())
}

func realMain() int {
	memory.Heed()
	ctx, stop := lifecycle.Signals(context.Background())
	defer stop()
	return cli.Execute(ctx, newRoot(), os.Args[1:], os.Stdout, os.Stderr)
}
