package config

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"
)

// value returns a key's value. given is false when the key is absent, null or stands twice; what of this is wrong is then
// a fault already.
func (f *members) value(key string, need bool) (m member, given bool) {
	m, found := f.values[key]
	switch {
	case !found && need:
		f.fault(key, "must be given; there is no default")
	case !found:
	case m.again != 0:
		f.faultAt(key, m.again, "stands twice, first on line %d; remove one", m.line)
	case m.raw.Kind() == 'n' && key == KeyCrossNode:
		f.fault(key, "is null; write [] for nobody")
	case m.raw.Kind() == 'n':
		f.fault(key, "is null; write the value that you mean")
	default:
		return m, true
	}
	return member{}, false
}

// boolean reads true, false or exactly those words as strings, which is how some templates write them. ok is false when
// the key is absent or at fault.
func (f *members) boolean(key string, need bool) (v, ok bool) {
	m, given := f.value(key, need)
	if !given {
		return false, false
	}
	s, isText := m.text()
	switch {
	case m.raw.Kind() == 't' || isText && s == "true":
		return true, true
	case m.raw.Kind() == 'f' || isText && s == "false":
		return false, true
	}
	f.fault(key, `must be true or false, or exactly "true" or "false"`)
	return false, false
}

// text reads a string that must be given and not be empty.
func (f *members) text(key string) string {
	m, given := f.value(key, required)
	if !given {
		return ""
	}
	s, ok := m.text()
	if !ok || s == "" {
		f.fault(key, "must be a non-empty string")
		return ""
	}
	return s
}

func (m member) text() (string, bool) {
	if m.raw.Kind() != '"' {
		return "", false
	}
	s, err := jsontext.AppendUnquote(nil, m.raw)
	return string(s), err == nil
}

// list returns a list's entries, each with the line it begins on.
func (m member) list() ([]member, bool) {
	if m.raw.Kind() != '[' {
		return nil, false
	}
	dec := jsontext.NewDecoder(bytes.NewReader(m.raw), jsontext.AllowDuplicateNames(true))
	if _, err := dec.ReadToken(); err != nil {
		return nil, false
	}
	var out []member
	for dec.PeekKind() != ']' {
		value, err := dec.ReadValue()
		if err != nil {
			return nil, false
		}
		line := m.line - 1 + lineOf(m.raw, dec.InputOffset()-int64(len(value)))
		out = append(out, member{raw: value.Clone(), line: line})
	}
	return out, true
}
