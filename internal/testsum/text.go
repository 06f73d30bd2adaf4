package main

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// failureText is what the failed tests, the package itself and its compiler printed, less go test's running commentary.
func (t *tally) failureText(pkg string) string {
	var b strings.Builder
	for _, path := range slices.Sorted(maps.Keys(t.build)) {
		if path == pkg || strings.HasPrefix(path, pkg+" ") || strings.HasPrefix(path, pkg+".") || strings.HasPrefix(path, pkg+"_") {
			b.WriteString(strings.Join(t.build[path], ""))
		}
	}
	for _, k := range append(t.order[pkg], testKey{pkg, ""}) {
		if k.test != "" && t.state[k] != "fail" && t.state[k] != "running" && !races(t.output[k]) {
			continue
		}
		for _, line := range t.output[k] {
			if !strings.HasPrefix(line, "=== ") && !isClosing(line) {
				b.WriteString(line)
			}
		}
	}
	return b.String()
}

// races says whether the race detector has reported here. It fails every test that runs at that moment, and what it says may stand
// with another one, which passed.
func races(lines []string) bool { return slices.Contains(lines, "WARNING: DATA RACE\n") }

// skipReason is the text that t.Skip was given: the lines between the commentary, their file and line cut off.
func skipReason(lines []string) string {
	var said []string
	for _, line := range lines {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "=== ") || strings.HasPrefix(line, "--- ") {
			continue
		}
		if _, after, ok := strings.Cut(line, ".go:"); ok {
			if _, text, ok := strings.Cut(after, ": "); ok {
				line = text
			}
		}
		said = append(said, line)
	}
	if len(said) == 0 {
		return "no reason given"
	}
	return strings.Join(said, " ")
}

func isClosing(line string) bool {
	return strings.HasPrefix(line, "ok  \t") || strings.HasPrefix(line, "FAIL\t") || strings.HasPrefix(line, "?   \t") ||
		line == "PASS\n" || line == "FAIL\n"
}

// closingLine finds the line with which go test itself closes a package, and writes it where there is none.
func closingLine(lines []string, e event) string {
	for _, line := range slices.Backward(lines) {
		if isClosing(line) && strings.Contains(line, "\t") {
			return strings.TrimRight(line, "\n")
		}
	}
	word := map[string]string{"pass": "ok  ", "fail": "FAIL", "skip": "?   "}[e.Action]
	return word + "\t" + e.Package + "\t" + (time.Duration(e.Elapsed * float64(time.Second))).Round(time.Millisecond).String()
}
