// Package cli ends the command lines of the programs that serve: what a person reads of an error, and the exit code that
// whoever started the program goes by.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lanyard-k8s/lanyard/internal/config"
)

// The exit codes.
const (
	OK     = 0
	Error  = 1
	Faults = 2 // a configuration file has faults
)

// Execute runs a command line under its root command and returns the exit code. An error becomes one line on stderr, behind
// the program's name; the faults of a configuration file are many lines, one for each. The root command must be silent about
// errors and usage itself.
func Execute(ctx context.Context, root *cobra.Command, args []string, stdout, stderr io.Writer) int {
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return OK
	}
	var faults config.Faults
	if errors.As(err, &faults) {
		fmt.Fprintf(stderr, "%s: %v\n", root.Name(), err)
		return Faults
	}
	fmt.Fprintf(stderr, "%s: %s\n", root.Name(), strings.ReplaceAll(err.Error(), "\n", "; "))
	return Error
}
