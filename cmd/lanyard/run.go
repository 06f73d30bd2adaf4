package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

// streams are where a command reads and writes.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

// run executes one command line and gives the exit code.
func run(args []string, s streams) int {
	ctx, stop := context.WithCancel(context.Background())
	if heed := heeded(syscall.SIGINT, syscall.SIGTERM); len(heed) > 0 { // no signal at all would mean every one
		ctx, stop = signal.NotifyContext(ctx, heed...)
	}
	defer stop()
	root := rootCommand(s)
	root.AddCommand(
		demoCommand(s),
		previewCommand(s),
		doctorCommand(s),
		publishCommand(s),
		tokenCommand(s),
		runCommand(s),
		jobsCommand(s),
		versionCommand(s),
	)
	root.SetArgs(args)
	return exitCode(root.ExecuteContext(ctx), s.err)
}

func rootCommand(s streams) *cobra.Command {
	root := &cobra.Command{
		Use:   "lanyard",
		Short: "See what Lanyard does with a manifest, and examine a cluster",
		Long: `lanyard shows what Lanyard does with a manifest before it is applied, and examines a cluster for what is missing or
dangerous in its installation.`,
		Example: `  lanyard preview --as job -f job.yaml
  lanyard doctor`,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetIn(s.in)
	root.SetOut(s.out)
	root.SetErr(s.err)
	return root
}

// The exit codes that all commands share.
const (
	exitFound = 1 // the command ran, and its answer is no: refused, or something failed the examination
	exitUsage = 2 // the command could not run: bad flags, bad input, no cluster
)

// codedError ends the program with its code. An empty text means that everything was said already.
type codedError struct {
	code int
	text string
}

func (e codedError) Error() string { return e.text }

// exitCode prints an error on one line and gives the code that the program ends with.
func exitCode(err error, stderr io.Writer) int {
	if err == nil {
		return 0
	}
	coded := codedError{code: exitUsage, text: err.Error()}
	errors.As(err, &coded)
	if coded.text != "" {
		complain(stderr, coded.text)
	}
	return coded.code
}

// complain prints one line for a person. A list of faults becomes one line too.
func complain(w io.Writer, text string) {
	var parts []string
	for line := range strings.Lines(text) {
		parts = append(parts, strings.TrimSpace(line))
	}
	fmt.Fprintf(w, "lanyard: %s\n", oneLine(strings.ReplaceAll(strings.Join(parts, "; "), ":; ", ": ")))
}
