package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Fault is one thing that is wrong with a file. Path is the key path, such as "job.kinds[0].group", empty for the file as
// a whole; Line counts from 1 and is 0 when the fault is something missing. Message says what is wrong and what to write
// instead; it quotes a value only where the value is a name that the reader must recognise.
type Fault struct {
	Path    string
	Line    int
	Message string
}

// String renders the fault on one line.
func (f Fault) String() string {
	var b strings.Builder
	if f.Path != "" {
		b.WriteString(f.Path)
		b.WriteString(": ")
	}
	b.WriteString(f.Message)
	if f.Line > 0 {
		fmt.Fprintf(&b, " (line %d)", f.Line)
	}
	return b.String()
}

// Faults are all the faults of a file in the order of its lines. It is an error as soon as it holds one.
type Faults []Fault

// Error renders a single fault on one line and several on one line each, below a heading.
func (fs Faults) Error() string {
	if len(fs) == 1 {
		return fs[0].String()
	}
	lines := make([]string, 0, len(fs)+1)
	lines = append(lines, fmt.Sprintf("%d faults:", len(fs)))
	for _, f := range fs {
		lines = append(lines, "  "+f.String())
	}
	return strings.Join(lines, "\n")
}

// sorted returns the faults by line, then path. Faults of missing keys come last.
func (fs Faults) sorted() Faults {
	out := slices.Clone(fs)
	slices.SortStableFunc(out, func(a, b Fault) int {
		return cmp.Or(cmp.Compare(lineKey(a), lineKey(b)), cmp.Compare(a.Path, b.Path), cmp.Compare(a.Message, b.Message))
	})
	return out
}

func lineKey(f Fault) int {
	if f.Line == 0 {
		return 1 << 30
	}
	return f.Line
}
