package manifest

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"strings"
	"unsafe"

	"github.com/go-json-experiment/json/jsontext"
)

// reader walks JSON text token by token. It hands out substrings of the text instead of a new string for each
// name and value, which is most of the difference to decoding into structs.
type reader struct {
	dec  *jsontext.Decoder
	text string
	// lenient takes a wrong type for absent. Templates inside custom resources are read so: an object may look like a pod
	// template and mean something else, and its own controller's pods are checked again anyway.
	lenient bool
	left    *bounds
}

// newReader reads raw, which must not change for as long as anything that was read of it is used: it is not copied, since it is up to some
// megabytes, and many of them at a time. Duplicate keys and invalid UTF-8 are errors, which are the decoder's defaults.
func newReader(raw []byte, lenient bool, left *bounds) *reader {
	text := unsafe.String(unsafe.SliceData(raw), len(raw))
	return &reader{dec: jsontext.NewDecoder(bytes.NewBuffer(raw)), text: text, lenient: lenient, left: left}
}

// value reads the next value whole and returns its text.
func (r *reader) value() (string, error) {
	v, err := r.dec.ReadValue()
	if err != nil {
		return "", r.syntax(err)
	}
	end := int(r.dec.InputOffset())
	return r.text[end-len(v) : end], nil
}

// skip passes over the next value.
func (r *reader) skip() error {
	if k := r.dec.PeekKind(); k != '{' && k != '[' {
		if err := r.dec.SkipValue(); err != nil {
			return r.syntax(err)
		}
		return nil
	}
	for depth := r.dec.StackDepth(); ; {
		begin := r.dec.InputOffset()
		if _, err := r.dec.ReadToken(); err != nil {
			return r.syntax(err)
		}
		now := r.dec.StackDepth()
		if now == depth {
			return nil
		}
		if kind, n := r.dec.StackIndex(now); kind == '{' && n%2 == 1 {
			if problem := r.left.name(int(n+1)/2, int(r.dec.InputOffset()-begin)); problem != "" {
				return r.over(problem)
			}
		}
	}
}

// wrong passes over a value of another kind than the rules expect and says so, unless the reader is lenient.
func (r *reader) wrong(want string) error {
	if err := r.skip(); err != nil || r.lenient {
		return err
	}
	return &Error{Path: fieldPath(string(r.dec.StackPointer())), Problem: "want " + want}
}

// quoted reads a string that is known to be next.
func (r *reader) quoted() (string, error) {
	v, err := r.value()
	if err != nil {
		return "", err
	}
	if inner := v[1 : len(v)-1]; strings.IndexByte(inner, '\\') < 0 {
		return inner, nil
	}
	b, err := jsontext.AppendUnquote(nil, v)
	if err != nil {
		return "", r.syntax(err)
	}
	return string(b), nil
}

// str reads a string or null.
func (r *reader) str() (string, error) {
	switch r.dec.PeekKind() {
	case '"':
		return r.quoted()
	case 'n':
		return "", r.skip()
	default:
		return "", r.wrong("a string")
	}
}

// boolean reads a boolean or null.
func (r *reader) boolean() (bool, error) {
	switch r.dec.PeekKind() {
	case 't':
		return true, r.skip()
	case 'f', 'n':
		return false, r.skip()
	default:
		return false, r.wrong("true or false")
	}
}

// whole reads a whole number that fits in 64 bits, or null.
func (r *reader) whole() (int64, error) {
	switch r.dec.PeekKind() {
	case '0':
		v, err := r.value()
		if err != nil {
			return 0, err
		}
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil && !r.lenient {
			return 0, &Error{Path: fieldPath(string(r.dec.StackPointer())), Problem: "want a whole number"}
		}
		return n, nil
	case 'n':
		return 0, r.skip()
	default:
		return 0, r.wrong("a whole number")
	}
}

// present reads any value and says whether it is more than null.
func (r *reader) present() (bool, error) {
	null := r.dec.PeekKind() == 'n'
	return !null, r.skip()
}

// object calls member for every key of the next object; member must consume the value.
func (r *reader) object(member func(key string) error) (Shape, error) {
	switch r.dec.PeekKind() {
	case '{':
	case 'n':
		return Absent, r.skip()
	default:
		return Absent, r.wrong("an object")
	}
	if _, err := r.dec.ReadToken(); err != nil {
		return Absent, r.syntax(err)
	}
	shape := Absent
	for names := 1; r.dec.PeekKind() == '"'; names++ {
		shape = Filled
		key, err := r.quoted()
		if err != nil {
			return shape, err
		}
		if problem := r.left.name(names, len(key)); problem != "" {
			return shape, r.over(problem)
		}
		if err := member(key); err != nil {
			return shape, err
		}
	}
	// Whatever is next, if it is not the closing brace the decoder says what is wrong with it.
	if _, err := r.dec.ReadToken(); err != nil {
		return shape, r.syntax(err)
	}
	return shape, nil
}

// list calls element for every element of the next array; element must consume the value.
func (r *reader) list(element func() error) (Shape, error) {
	switch r.dec.PeekKind() {
	case '[':
	case 'n':
		return Absent, r.skip()
	default:
		return Absent, r.wrong("a list")
	}
	if _, err := r.dec.ReadToken(); err != nil {
		return Absent, r.syntax(err)
	}
	shape := Absent
	for k := r.dec.PeekKind(); k != ']' && k != jsontext.KindInvalid; k = r.dec.PeekKind() {
		if !r.left.element() {
			return shape, r.over(sayElements)
		}
		shape = Filled
		if err := element(); err != nil {
			return shape, err
		}
	}
	if _, err := r.dec.ReadToken(); err != nil {
		return shape, r.syntax(err)
	}
	return shape, nil
}

// item reads an object inside a list, where null is not a way of saying "absent".
func (r *reader) item(member func(key string) error) error {
	if r.dec.PeekKind() == 'n' {
		return r.wrong("an object")
	}
	_, err := r.object(member)
	return err
}

// end makes sure that nothing follows the object.
func (r *reader) end() error {
	switch _, err := r.dec.ReadToken(); {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		return r.syntax(err)
	default:
		return &Error{Problem: "something follows the object"}
	}
}
