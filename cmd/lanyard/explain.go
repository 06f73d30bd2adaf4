package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"github.com/lanyard-k8s/lanyard/preview"
)

// When a diff is coloured.
const (
	colorAuto   = "auto"
	colorAlways = "always"
	colorNever  = "never"
)

// The colours, as terminals know them.
const (
	red    = "31"
	green  = "32"
	yellow = "33"
	cyan   = "36"
	bold   = "1"
)

// painter colours text, or leaves it as it is.
type painter struct{ on bool }

func newPainter(when string, out io.Writer) (painter, error) {
	if err := oneOf("color", when, colorAuto, colorAlways, colorNever); err != nil {
		return painter{}, err
	}
	if when != colorAuto {
		return painter{on: when == colorAlways}, nil
	}
	file, ok := out.(*os.File)
	return painter{on: ok && os.Getenv("NO_COLOR") == "" && term.IsTerminal(int(file.Fd()))}, nil
}

func (p painter) text(color, s string) string {
	if !p.on {
		return s
	}
	return "\x1b[" + color + "m" + s + "\x1b[0m"
}

// diff prints a unified diff.
func (p painter) diff(w io.Writer, text []byte) {
	for line := range bytes.Lines(text) {
		s := strings.TrimSuffix(string(line), "\n")
		switch {
		case strings.HasPrefix(s, "---"), strings.HasPrefix(s, "+++"):
			s = p.text(bold, s)
		case strings.HasPrefix(s, "@@"):
			s = p.text(cyan, s)
		case strings.HasPrefix(s, "+"):
			s = p.text(green, s)
		case strings.HasPrefix(s, "-"):
			s = p.text(red, s)
		}
		fmt.Fprintln(w, s)
	}
}

// explain says to a person what became of a document: the verdict, every violation, the warnings and notes.
func (r *report) explain(res preview.Result) {
	fmt.Fprintf(r.people, "%s (%s): %s\n", r.paint.text(bold, res.Document.Title()), res.Document.Place(), r.verdict(res))
	for _, v := range res.Violations {
		fmt.Fprintf(r.people, "  %s: %s (%s)\n", v.Field, v.Message, v.Reason)
	}
	if res.More > 0 {
		fmt.Fprintf(r.people, "  and %d more\n", res.More)
	}
	for _, w := range res.Warnings {
		fmt.Fprintf(r.people, "  %s %s\n", r.paint.text(yellow, "warning:"), w)
	}
	for _, n := range res.Notes {
		fmt.Fprintf(r.people, "  note: %s\n", n)
	}
}

func (r *report) verdict(res preview.Result) string {
	if res.Verdict == preview.Refused {
		return r.paint.text(red, "refused")
	}
	text := string(res.Verdict)
	if res.Verdict == preview.Changed {
		text = "admitted with additions"
	}
	if len(res.Violations) > 0 {
		text += ", though mode enforce would refuse it"
	}
	if len(res.Roles) > 0 {
		var roles []string
		for _, role := range res.Roles {
			roles = append(roles, string(role))
		}
		text += ", role " + strings.Join(roles, " and ")
	}
	return r.paint.text(green, text)
}
