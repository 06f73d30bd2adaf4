package config

import (
	"fmt"

	"go.yaml.in/yaml/v3"
)

// Section reads a nested mapping. An absent one has no keys, so that every default applies.
func (s *Section) Section(key string) *Section {
	n, ok := s.value(key)
	if ok && n.Kind != yaml.MappingNode {
		s.report.add(s.at(key), n.Line, "must be a mapping, not %s", describe(n))
		ok = false
	}
	if !ok {
		return &Section{path: s.at(key), report: s.report, known: map[string]bool{}}
	}
	return s.adopt(newSection(s.report, s.at(key), n))
}

func (s *Section) adopt(child *Section) *Section {
	s.children = append(s.children, child)
	return child
}

// Sections reads a list of mappings. given is false when the key is absent or unusable; an empty list is given.
func (s *Section) Sections(key string) (items []*Section, given bool) {
	nodes, given := s.list(key)
	for i, n := range nodes {
		path := s.entry(key, i, n)
		if !s.usable(path, n) {
			continue
		}
		if n.Kind != yaml.MappingNode {
			s.report.add(path, n.Line, "must be a mapping, not %s", describe(n))
			continue
		}
		items = append(items, s.adopt(newSection(s.report, path, n)))
	}
	return items, given
}

// Strings reads a list of strings. check, when not nil, returns what is wrong with an entry. The list that the file gives
// is returned as a non-nil slice even when it is empty; absent returns the default.
func (s *Section) Strings(key string, absent []string, check func(string) error) []string {
	nodes, given := s.list(key)
	if !given {
		return absent
	}
	out := make([]string, 0, len(nodes))
	for i, n := range nodes {
		path := s.entry(key, i, n)
		if !s.usable(path, n) {
			continue
		}
		v, ok := s.str(path, n)
		if !ok {
			continue
		}
		if check != nil {
			if err := check(v); err != nil {
				s.report.add(path, n.Line, "%v", err)
				continue
			}
		}
		out = append(out, v)
	}
	return out
}

// entry is the path of a list's entry, whose line it notes.
func (s *Section) entry(key string, i int, n *yaml.Node) string {
	path := fmt.Sprintf("%s[%d]", s.at(key), i)
	s.report.lines[path] = n.Line
	return path
}

func (s *Section) list(key string) (nodes []*yaml.Node, given bool) {
	n, ok := s.value(key)
	if !ok {
		return nil, false
	}
	if n.Kind != yaml.SequenceNode {
		s.report.add(s.at(key), n.Line, "must be a list, not %s; write [] for an empty one", describe(n))
		return nil, false
	}
	return n.Content, true
}

// Texts reads a mapping from names that the file chooses to strings that are not empty. check returns what is wrong with an entry.
// Absent is nil.
func (s *Section) Texts(key string, check func(name, text string) error) map[string]string {
	if !s.Has(key) {
		s.known[key] = true
		return nil
	}
	child := s.Section(key)
	out := map[string]string{}
	for _, name := range child.order {
		text := child.Text(name.Value, "")
		if text == "" {
			continue // a fault already
		}
		if err := check(name.Value, text); err != nil {
			child.Fault(name.Value, "%v", err)
			continue
		}
		out[name.Value] = text
	}
	return out
}
