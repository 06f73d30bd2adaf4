// Program workload is what the tests run in their pods: a publisher, a managed job, a caller, a model behind a gateway, and the
// webhook of somebody else that adds a sidecar. It is static and lies in an image of its own, without a shell beside it; so each
// part is a sub-command:
//
//	workload publisher --interval=100ms
//	workload job --mode=http
//	workload call --url=https://model.models.svc:8443/v1/models
//
// Every line that it prints is one JSON object, so that a test reads a pod's log by unmarshalling it. None ever holds a token:
// whatever looks like one is struck out on its way to the standard output (see print.go).
//
// The exit codes are 0, 1 when the answer was no, 2 when the command line was wrong, or what `exit --code` says. A new sub-command
// is a file with a func and an entry in commands.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// command runs one sub-command on its own arguments.
type command func(ctx context.Context, args []string, p printer) error

// commands are the sub-commands by name.
func commands() map[string]command {
	return map[string]command{
		"publisher":   runPublisher,
		"attempt":     runAttempt,
		"squat":       runSquat,
		"job":         runJob,
		"call":        runCall,
		"certificate": runCertificate,
		"claims":      runClaims,
		"env":         runEnv,
		"exit":        runExit,
		"sleep":       runSleep,
		"serve":       runServe,
		"injector":    runInjector,
	}
}

// exit is an error that only is an exit code: everything was said before.
type exit int

func (e exit) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// errUsage says that the command line was wrong.
var errUsage = errors.New("wrong command line")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout))
}

// run runs the sub-command that args name and returns the exit code.
func run(ctx context.Context, args []string, out io.Writer) int {
	p := newPrinter(out)
	if len(args) == 0 || commands()[args[0]] == nil {
		p.print(failure{Error: "the first argument must be a sub-command; see commands in main.go"})
		return 2
	}
	err := commands()[args[0]](ctx, args[1:], p)
	var code exit
	switch {
	case err == nil:
		return 0
	case errors.As(err, &code):
		return int(code)
	case errors.Is(err, errUsage):
		p.print(failure{Error: err.Error()})
		return 2
	default:
		p.print(failure{Error: err.Error()})
		return 1
	}
}

// failure is the line that says why a sub-command ends.
type failure struct {
	Error string `json:"error"`
}
