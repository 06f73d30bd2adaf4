package config

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/lanyard-k8s/lanyard/internal/config"
)

// whether a key may be absent.
const (
	required = true
	optional = false
)

// members are the members of the one JSON object that a file holds. The file is walked instead of decoded into a struct,
// because decoding cannot tell absent from null, folds the case of keys, takes the last of two equal keys and stops at the
// first fault.
type members struct {
	values map[string]member
	order  []string
	broken bool
	faults config.Faults
}

// member is a value as it stands in the file, with the line it begins on.
type member struct {
	raw   jsontext.Value
	line  int
	again int // the line of the same key's next value, 0 when there is none
}

// readMembers reads the file's object. A key that stands twice is a fault only if somebody asks for it: two readers of such
// a file may take different ones.
func readMembers(raw []byte) *members {
	f := &members{values: map[string]member{}}
	dec := jsontext.NewDecoder(bytes.NewReader(raw), jsontext.AllowDuplicateNames(true))
	if dec.PeekKind() != '{' {
		return f.breakOff(raw, dec, "must hold a JSON object")
	}
	if _, err := dec.ReadToken(); err != nil {
		return f.breakOff(raw, dec, "is not valid JSON")
	}
	for dec.PeekKind() == '"' {
		name, err := dec.ReadToken()
		if err != nil {
			return f.breakOff(raw, dec, "is not valid JSON")
		}
		key := name.String()
		value, err := dec.ReadValue()
		if err != nil {
			return f.breakOff(raw, dec, "is not valid JSON")
		}
		f.add(key, member{raw: value.Clone(), line: lineOf(raw, dec.InputOffset()-int64(len(value)))})
	}
	if _, err := dec.ReadToken(); err != nil {
		return f.breakOff(raw, dec, "is not valid JSON")
	}
	if _, err := dec.ReadToken(); !errors.Is(err, io.EOF) {
		return f.breakOff(raw, dec, "must end after its object; remove what follows it")
	}
	return f
}

// add keeps the first of several values and notes that there is another.
func (f *members) add(key string, m member) {
	if first, seen := f.values[key]; seen {
		first.again = m.line
		f.values[key] = first
		return
	}
	f.values[key] = m
	f.order = append(f.order, key)
}

func (f *members) breakOff(raw []byte, dec *jsontext.Decoder, message string) *members {
	f.broken = true
	f.faultAt("", lineOf(raw, dec.InputOffset()), "the file %s", message)
	return f
}

func (f *members) unreadable() bool { return f.broken }

// lineOf is the line, from 1, of the first byte at or after an offset that is not white space.
func lineOf(raw []byte, offset int64) int {
	at := min(int(offset), len(raw))
	at += len(raw[at:]) - len(bytes.TrimLeft(raw[at:], " \t\r\n"))
	return 1 + bytes.Count(raw[:at], []byte("\n"))
}

// fault notes a fault of a key, on the line of its value if it has one.
func (f *members) fault(key, format string, args ...any) {
	f.faultAt(key, f.values[key].line, format, args...)
}

func (f *members) faultAt(path string, line int, format string, args ...any) {
	f.faults = append(f.faults, config.Fault{Path: path, Line: line, Message: fmt.Sprintf(format, args...)})
}

// finish returns an Auth when there is no fault.
func (f *members) finish(a Auth) (Auth, error) {
	if err := f.err(); err != nil {
		return Auth{}, err
	}
	return a, nil
}

// err is nil or all faults in the order of their lines, those of absent keys last.
func (f *members) err() error {
	if len(f.faults) == 0 {
		return nil
	}
	line := func(x config.Fault) int {
		if x.Line == 0 {
			return math.MaxInt
		}
		return x.Line
	}
	slices.SortStableFunc(f.faults, func(a, b config.Fault) int {
		return cmp.Or(cmp.Compare(line(a), line(b)), cmp.Compare(a.Path, b.Path))
	})
	return f.faults
}
