package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/lanyard-k8s/lanyard/doctor"
)

// printFindings prints what doctor found: one paragraph a finding for people, a JSON list for programs.
func printFindings(w io.Writer, format string, paint painter, findings []doctor.Finding) error {
	if format == outputJSON {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		enc.SetEscapeHTML(false)
		if err := enc.Encode(findings); err != nil {
			return fmt.Errorf("writing JSON: %w", err)
		}
		return nil
	}
	count := map[doctor.Severity]int{}
	for _, f := range findings {
		count[f.Severity]++
		printFinding(w, paint, f)
	}
	fmt.Fprintf(w, "\n%d failed, %d to look at, %d fine\n", count[doctor.Fail], count[doctor.Warn], count[doctor.OK])
	return nil
}

func printFinding(w io.Writer, paint painter, f doctor.Finding) {
	colors := map[doctor.Severity]string{doctor.OK: green, doctor.Warn: yellow, doctor.Fail: red}
	head := paint.text(colors[f.Severity], fmt.Sprintf("%-4s", f.Severity)) + " " + paint.text(bold, string(f.Check)) + ": "
	if f.Subject != "" {
		head += oneLine(f.Subject) + ": "
	}
	fmt.Fprintln(w, head+oneLine(f.Message))
	if f.Advice != "" {
		fmt.Fprintln(w, "     -> "+oneLine(f.Advice))
	}
}

// oneLine keeps what came out of a cluster from breaking the layout or steering the terminal.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, s)
}
