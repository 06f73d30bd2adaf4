package main

import (
	"fmt"
	"io"
	"time"
)

// summarise prints what ran, what was skipped and why, and the closing line. It says whether everything passed.
func summarise(w io.Writer, outcomes []outcome) bool {
	passed, failed, skips, ok := 0, 0, 0, true
	fmt.Fprintln(w, "\nWhat ran:")
	for _, o := range outcomes {
		fmt.Fprintf(w, "  %-12s %5d passed %4d failed %4d skipped  %8s\n",
			o.name, o.passed, o.failed, len(o.skipped), o.took.Round(100*time.Millisecond))
		passed, failed, skips = passed+o.passed, failed+o.failed, skips+len(o.skipped)
		ok = ok && o.ok
	}
	if skips > 0 {
		fmt.Fprintln(w, "What was skipped, and why:")
	}
	for _, o := range outcomes {
		for _, s := range o.skipped {
			fmt.Fprintf(w, "  %s (%s): %s\n", s.test, s.pkg, s.why)
		}
	}
	fmt.Fprintf(w, "\n%d passed, %d failed, %d skipped\n", passed, failed, skips)
	return ok && failed == 0
}
