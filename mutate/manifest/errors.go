package manifest

import (
	"errors"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// maxPath bounds the path in an error: keys are the author's and may be of any length.
const maxPath = 256

// Error says that an object is not what the API server would have sent. It names a place and a problem, never a value.
type Error struct {
	Path    string // a field path, empty for the object itself
	Problem string
}

func (e *Error) Error() string {
	if e.Path == "" {
		return "malformed object: " + e.Problem
	}
	return "malformed object at " + e.Path + ": " + e.Problem
}

// syntax turns the decoder's error into one that cannot carry any of the text it read.
func (r *reader) syntax(err error) error {
	out := &Error{Problem: "not valid JSON"}
	if errors.Is(err, jsontext.ErrDuplicateName) {
		out.Problem = "a key stands twice"
	}
	var syntactic *jsontext.SyntacticError
	if errors.As(err, &syntactic) {
		out.Path = fieldPath(string(syntactic.JSONPointer))
	}
	return out
}

// fieldPath writes a JSON pointer the way Kubernetes writes field paths: /spec/containers/0/env is
// spec.containers[0].env, and keys that are not plain words stand in brackets.
func fieldPath(pointer string) string {
	if len(pointer) > 4*maxPath { // longer than the path may be whatever stands there, and up to megabytes
		pointer = strings.ToValidUTF8(pointer[:4*maxPath], "")
	}
	var b strings.Builder
	for segment := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		segment = strings.ReplaceAll(strings.ReplaceAll(segment, "~1", "/"), "~0", "~")
		b.WriteString(pathSegment(segment, b.Len() == 0))
	}
	if s := b.String(); len(s) <= maxPath {
		return s
	}
	return strings.ToValidUTF8(b.String()[:maxPath], "") + "..."
}

// pathSegment is one step of a field path: an index, a plain key or a bracketed one.
func pathSegment(key string, first bool) string {
	if _, err := strconv.Atoi(key); err == nil {
		return "[" + key + "]"
	}
	plain := strings.IndexFunc(key, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' && c != '-'
	}) < 0
	switch {
	case !plain:
		return "[" + strings.Trim(strconv.QuoteToASCII(key), `"`) + "]"
	case first:
		return key
	default:
		return "." + key
	}
}
