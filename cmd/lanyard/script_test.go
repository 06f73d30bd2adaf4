package main

import (
	"flag"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

var update = flag.Bool("update", false, "write the transcripts' golden parts anew")

// TestMain makes the program itself a command of the transcripts.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"lanyard": main})
}

// TestScripts runs the transcripts in testdata/script.
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		UpdateScripts:       *update,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Cmds:                map[string]func(*testscript.TestScript, bool, []string){"platform": platformCommand},
	})
}
