// Program testsum runs `go test` over named groups of packages, shows each package as it ends, failures in full, and
// closes with the totals of what really ran:
//
//	testsum -group units -race ./mutate/... -group cluster -count=1 ./test/integration/...
//
// -beside in place of -group starts a group together with the one before it, and what follows does not wait for its end.
// Everything after a group's name goes to `go test` as it stands. The last line is "N passed, N failed, N skipped"; the
// exit code is 1 if any group's `go test` failed and 2 if testsum was called wrongly.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	groups, err := parseGroups(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "testsum:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if !run(ctx, os.Stdout, groups) {
		stop()
		os.Exit(1)
	}
}
