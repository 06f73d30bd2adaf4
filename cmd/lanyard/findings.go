package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"

	"github.com/lanyard-k8s/lanyard/doctor"
)

// printFindings prints what doctor found: one paragraph a finding for people, a JSON list for programs.
func printFindings(w io.Writer, format string, paint painter, findings []doctor.Finding) error {
	if format == outputJSON {
		return printJSON(w, findings)
	}
	count := map[doctor.Severity]int{}
	for _, f := range findings {
		count[f.Severity]++
	}
	for _, g := range grouped(findings) {
		printGroup(w, paint, g)
	}
	fmt.Fprintf(w, "\n%d failed, %d to look at, %d fine\n", count[doctor.Fail], count[doctor.Warn], count[doctor.OK])
	return nil
}

// grouped puts findings together that say the same of several subjects, in the order in which each was first said.
func grouped(findings []doctor.Finding) [][]doctor.Finding {
	var groups [][]doctor.Finding
	for _, f := range findings {
		i := slices.IndexFunc(groups, func(g []doctor.Finding) bool {
			o := g[0]
			o.Subject = f.Subject
			return o == f
		})
		if i < 0 {
			groups = append(groups, []doctor.Finding{f})
			continue
		}
		groups[i] = append(groups[i], f)
	}
	return groups
}

func printGroup(w io.Writer, paint painter, group []doctor.Finding) {
	f := group[0]
	colors := map[doctor.Severity]string{doctor.OK: green, doctor.Warn: yellow, doctor.Fail: red}
	head := paint.text(colors[f.Severity], fmt.Sprintf("%-4s", f.Severity)) + " " + paint.text(bold, string(f.Check)) + ": "
	if len(group) == 1 && f.Subject != "" {
		head += oneLine(f.Subject) + ": "
	}
	fmt.Fprintln(w, head+oneLine(f.Message))
	if len(group) > 1 {
		for _, f := range group {
			fmt.Fprintln(w, "     "+oneLine(f.Subject))
		}
	}
	if f.Advice != "" {
		fmt.Fprintln(w, "     -> "+oneLine(f.Advice))
	}
}

// oneLine keeps what came out of a cluster from breaking the layout or steering the terminal: some take U+009B for ESC [, and what turns
// the direction of a text around shows another one than there is.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) {
			return ' '
		}
		return r
	}, s)
}
