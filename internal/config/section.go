package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"go.yaml.in/yaml/v3"
)

// Section is one mapping of a file. The getters take a key, remember that it is known, and note a fault when its value is
// not what they promise; they then return the default, so that reading goes on and finds the other faults too. An absent
// section is a Section without keys.
type Section struct {
	path     string
	line     int
	keys     map[string]*yaml.Node
	order    []*yaml.Node
	known    map[string]bool
	children []*Section
	report   *report
}

// report gathers the faults of all sections of one file.
type report struct {
	faults Faults
	lines  map[string]int // of every key and list entry seen so far
}

func (r *report) add(path string, line int, format string, args ...any) {
	r.faults = append(r.faults, Fault{Path: path, Line: line, Message: fmt.Sprintf(format, args...)})
}

// Parse reads a file that holds exactly one mapping. Faults of syntax are reported by Err like all others. The yaml node
// tree is walked by hand, because decoding into a struct cannot tell absent from null, and strict decoding stops at the
// first kind of fault.
func Parse(raw []byte) *Section {
	rep := &report{lines: map[string]int{}}
	empty := &Section{report: rep, known: map[string]bool{}}
	dec := yaml.NewDecoder(bytes.NewReader(raw))
	var doc, next yaml.Node
	if err := dec.Decode(&doc); errors.Is(err, io.EOF) || (err == nil && len(doc.Content) == 0) {
		rep.add("", 0, "the file is empty; it must hold a mapping")
		return empty
	} else if err != nil {
		rep.add("", 0, "not readable as YAML: %v", err)
		return empty
	}
	if err := dec.Decode(&next); !errors.Is(err, io.EOF) {
		rep.add("", next.Line, "more than one document; keep one and remove the rest")
	}
	if doc.Content[0].Kind != yaml.MappingNode {
		rep.add("", doc.Content[0].Line, "must be a mapping, not %s", describe(doc.Content[0]))
		return empty
	}
	return newSection(rep, "", doc.Content[0])
}

func newSection(rep *report, path string, n *yaml.Node) *Section {
	s := &Section{path: path, line: n.Line, report: rep, keys: map[string]*yaml.Node{}, known: map[string]bool{}}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		switch first, seen := s.keys[key.Value]; {
		case key.Kind != yaml.ScalarNode || key.Tag == "!!merge":
			rep.add(path, key.Line, "keys must be plain names; merge keys and aliases are not taken")
		case seen:
			rep.add(s.at(key.Value), key.Line, "stands twice, first on line %d; remove one", first.Line)
		default:
			s.keys[key.Value] = value
			rep.lines[s.at(key.Value)] = value.Line
			s.order = append(s.order, key)
		}
	}
	return s
}

func (s *Section) at(key string) string {
	if s.path == "" {
		return key
	}
	return s.path + "." + key
}

// Fault notes a fault of a key of this section, for rules that only the caller knows.
func (s *Section) Fault(key, format string, args ...any) {
	line := 0
	if n, ok := s.keys[key]; ok {
		line = n.Line
	}
	s.report.add(s.at(key), line, format, args...)
}

// FaultAt notes a fault of any key of the file, given by its whole path, unless something is known to be wrong with that
// key already. It is for checks of the finished result that know key paths but no sections.
func (s *Section) FaultAt(path, message string) {
	for _, f := range s.report.faults {
		if f.Path == path {
			return
		}
	}
	s.report.add(path, s.report.lines[path], "%s", message)
}

// Has says whether the key is in the file, null included.
func (s *Section) Has(key string) bool {
	_, ok := s.keys[key]
	return ok
}

// Err reports all faults of the whole file, keys that nobody asked for among them, or nil. It is called once, on the
// Section that Parse returned, after everything was read. The error is of type Faults.
func (s *Section) Err() error {
	s.refuseUnknown()
	if len(s.report.faults) == 0 {
		return nil
	}
	return s.report.faults.sorted()
}

func (s *Section) refuseUnknown() {
	names := slices.Sorted(maps.Keys(s.known))
	for _, key := range s.order {
		if s.known[key.Value] {
			continue
		}
		hint := "remove it"
		if near := Nearest(key.Value, names); near != "" {
			hint = fmt.Sprintf("did you mean %q?", near)
		}
		s.report.add(s.at(key.Value), key.Line, "unknown key; %s", hint)
	}
	for _, child := range s.children {
		child.refuseUnknown()
	}
}

// value finds a key's node. ok is false when the key is absent or unusable; the latter is already a fault then.
func (s *Section) value(key string) (n *yaml.Node, ok bool) {
	s.known[key] = true
	n, ok = s.keys[key]
	if !ok {
		return nil, false
	}
	return n, s.usable(s.at(key), n)
}

// usable refuses null and aliases. Aliases are not taken, since a few lines of them unfold into gigabytes.
func (s *Section) usable(path string, n *yaml.Node) bool {
	switch {
	case n.Kind == yaml.AliasNode:
		s.report.add(path, n.Line, "YAML aliases are not taken; write the value out")
		return false
	case n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null":
		s.report.add(path, n.Line, "is null; remove the key to get the default, or write the value that you mean ([] for an empty list)")
		return false
	}
	return true
}
