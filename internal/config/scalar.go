package config

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

var wholeNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)$`)

// Required notes a fault when the key is absent and says whether it is there. Unlike the getters' defaults it is for keys
// that somebody must decide about.
func (s *Section) Required(key, what string) bool {
	s.known[key] = true
	if s.Has(key) {
		return true
	}
	s.Fault(key, "must be given: %s", what)
	return false
}

// Bool reads true or false. The quoted words are strings and refused.
func (s *Section) Bool(key string, absent bool) bool {
	n, ok := s.value(key)
	if !ok {
		return absent
	}
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!bool" {
		s.report.add(s.at(key), n.Line, "must be true or false without quotes, not %s", describe(n))
		return absent
	}
	return strings.EqualFold(n.Value, "true")
}

// Int reads a whole number in [least, most]. Fractions, exponents, other bases and quoted numbers are refused.
func (s *Section) Int(key string, absent, least, most int64) int64 {
	n, ok := s.value(key)
	if !ok {
		return absent
	}
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!int" || !wholeNumber.MatchString(n.Value) {
		if n.ShortTag() != "!!float" || !wholeNumber.MatchString(n.Value) { // a whole number beyond 64 bits is tagged as a float
			s.report.add(s.at(key), n.Line, "must be a whole number without quotes, not %s", describe(n))
			return absent
		}
	}
	v, err := strconv.ParseInt(n.Value, 10, 64)
	if err != nil || v < least || v > most {
		s.report.add(s.at(key), n.Line, "must be between %d and %d", least, most)
		return absent
	}
	return v
}

// String reads a string. The empty string is a value; use Text where it is not.
func (s *Section) String(key, absent string) string {
	n, ok := s.value(key)
	if !ok {
		return absent
	}
	v, ok := s.str(s.at(key), n)
	if !ok {
		return absent
	}
	return v
}

// Text reads a string that may not be empty.
func (s *Section) Text(key, absent string) string {
	v := s.String(key, absent)
	if v == "" && s.Has(key) {
		if n := s.keys[key]; n.Kind == yaml.ScalarNode && n.ShortTag() == "!!str" {
			s.Fault(key, "is empty; remove the key to get the default, or write a value")
		}
		return absent
	}
	return v
}

// Enum reads one of a few words, compared exactly.
func (s *Section) Enum(key, absent string, words ...string) string {
	v := s.String(key, absent)
	if slices.Contains(words, v) {
		return v
	}
	s.Fault(key, "must be one of %s, in lower case and exactly so", strings.Join(words, ", "))
	return absent
}

func (s *Section) str(path string, n *yaml.Node) (string, bool) {
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!str" {
		s.report.add(path, n.Line, "must be a string, not %s", describe(n))
		return "", false
	}
	return n.Value, true
}

// describe names what a node is, never its value.
func describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return "an alias"
	}
	switch n.ShortTag() {
	case "!!null":
		return "null"
	case "!!bool":
		return "a boolean"
	case "!!int":
		return "a number"
	case "!!float":
		return "a number with a fraction or an exponent"
	case "!!str":
		return "a string"
	default:
		return "a value tagged " + n.ShortTag()
	}
}
