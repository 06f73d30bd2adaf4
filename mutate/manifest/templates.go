package manifest

import (
	"errors"
	"math"
	"strconv"
	"strings"
)

// maxDepth bounds how deep templates are looked for. The deepest that a known kind nests one is 9 (a JobSet's
// spec.replicatedJobs[].template.spec.template.spec.containers); what lies deeper is skipped, and its pods are checked.
const maxDepth = 64

// maxTemplates bounds how many templates of an object are read; the pods of those beyond are checked all the same.
const maxTemplates = 1000

// maxAgain bounds how often the text of an object is read again for its templates, all in all. Templates of known kinds lie beside each
// other, which makes it once; made to lie in each other they would be read dozens of times. The pods of those beyond are checked.
const maxAgain = 4

// Templates finds every pod template in an object, in whatever kind and under whatever key: an object whose "spec" is an
// object with a list "containers" or "initContainers". Their contents are read leniently, a wrong type taken for absent.
// The error, an *Error, means that the object is not JSON or repeats a key.
func Templates(raw []byte) ([]Template, error) {
	f := finder{again: maxAgain * len(raw), reader: newReader(raw, true, &bounds{elements: math.MaxInt, names: maxNames, letters: maxLetters})} // it keeps no element
	if r := f.reader; r.dec.PeekKind() != '{' {
		if err := r.skip(); err != nil {
			return nil, err
		}
		return nil, &Error{Problem: "want an object"}
	}
	if _, err := f.walk(); err != nil {
		return nil, err
	}
	if err := f.reader.end(); err != nil {
		return nil, err
	}
	out := make([]Template, 0, len(f.found))
	left := newBounds()
	for _, at := range f.found {
		p, err := newReader(raw[at.start:at.end], true, left).pod()
		if err != nil {
			return nil, below(at.path, err)
		}
		out = append(out, Template{Path: at.path, Raw: f.reader.text[at.start:at.end], Pod: p})
	}
	return out, nil
}

// below puts the template's path before that of an error in it.
func below(path string, err error) error {
	var malformed *Error
	if errors.As(err, &malformed) && path != "" {
		malformed.Path = strings.TrimSuffix(path+"."+malformed.Path, ".")
	}
	return err
}

// sight is what a value looks like to the object that holds it.
type sight uint8

const (
	other sight = iota
	array
	podSpec // an object with a list of containers
)

// finder walks an object once and remembers where its templates are.
type finder struct {
	reader *reader
	steps  []step
	found  []place
	again  int // bytes that may still be read again
}

// step is one key or one index on the way to the current value; a key has index -1.
type step struct {
	key   string
	index int
}

// place is where a template stands in the text.
type place struct {
	path       string
	start, end int
}

func (f *finder) walk() (sight, error) {
	if len(f.steps) > maxDepth {
		return other, f.reader.skip()
	}
	switch f.reader.dec.PeekKind() {
	case '{':
		return f.walkObject()
	case '[':
		return f.walkList()
	default:
		return other, f.reader.skip()
	}
}

func (f *finder) walkObject() (sight, error) {
	seen, template := other, false
	start := f.reader.dec.InputOffset()
	_, err := f.reader.object(func(key string) error {
		if key == "managedFields" && len(f.steps) == 1 && f.steps[0].key == "metadata" {
			return f.reader.skip() // large, and nothing but field names
		}
		f.steps = append(f.steps, step{key: key, index: -1})
		child, err := f.walk()
		f.steps = f.steps[:len(f.steps)-1]
		switch {
		case child == array && (key == "containers" || key == "initContainers"):
			seen = podSpec
		case child == podSpec && key == "spec":
			template = true
		}
		return err
	})
	if template && err == nil && len(f.found) < maxTemplates {
		end := f.reader.dec.InputOffset()
		text := f.reader.text[start:end]
		begin := int(start) + strings.IndexByte(text, '{')
		if f.again -= int(end) - begin; f.again >= 0 {
			f.found = append(f.found, place{path: f.path(), start: begin, end: int(end)})
		}
	}
	return seen, err
}

func (f *finder) walkList() (sight, error) {
	index := -1
	_, err := f.reader.list(func() error {
		index++
		f.steps = append(f.steps, step{index: index})
		_, err := f.walk()
		f.steps = f.steps[:len(f.steps)-1]
		return err
	})
	return array, err
}

// path writes the field path of the value that the steps lead to.
func (f *finder) path() string {
	var b strings.Builder
	for _, s := range f.steps {
		if s.index >= 0 {
			b.WriteString("[" + strconv.Itoa(s.index) + "]")
			continue
		}
		b.WriteString(pathSegment(s.key, b.Len() == 0))
	}
	if b.Len() > maxPath {
		return strings.ToValidUTF8(b.String()[:maxPath], "") + "..."
	}
	return b.String()
}
