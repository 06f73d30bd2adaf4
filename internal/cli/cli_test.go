package cli_test

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/lanyard-k8s/lanyard/internal/cli"
	"github.com/lanyard-k8s/lanyard/internal/config"
)

func TestExecute(t *testing.T) {
	t.Parallel()
	faults := config.Faults{{Path: "a", Message: "is wrong"}, {Path: "b", Line: 2, Message: "is wrong, too"}}
	for name, tc := range map[string]struct {
		err      error
		wantCode int
		want     string
	}{
		"all is well":                   {nil, cli.OK, ""},
		"an error is one line":          {errors.Join(errors.New("first"), errors.New("second")), cli.Error, "program: first; second\n"},
		"faults are one line each":      {fmt.Errorf("file.yaml: %w", faults), cli.Faults, "program: file.yaml: 2 faults:\n  a: is wrong\n  b: is wrong, too (line 2)\n"},
		"one fault is on the same line": {fmt.Errorf("file.yaml: %w", faults[:1]), cli.Faults, "program: file.yaml: a: is wrong\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := &cobra.Command{
				Use: "program --flag", SilenceErrors: true, SilenceUsage: true, Args: cobra.NoArgs,
				RunE: func(*cobra.Command, []string) error { return tc.err },
			}
			var out, err bytes.Buffer
			if code := cli.Execute(t.Context(), root, []string{}, &out, &err); code != tc.wantCode {
				t.Errorf("exit code %d, want %d", code, tc.wantCode)
			}
			if diff := cmp.Diff(tc.want, err.String()); diff != "" {
				t.Errorf("said (-want +got):\n%s", diff)
			}
			if out.Len() > 0 {
				t.Errorf("standard output says %q", out.String())
			}
		})
	}
}
