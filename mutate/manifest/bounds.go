package manifest

import "strconv"

// A few bytes of text become a hundred of memory when they are an element of a list that is kept, or a name in an object of many, which
// the decoder keeps to find one that stands twice. So an object may hold only so many of both, however small they are: what is larger
// than any pod that runs, and small beside what the text itself takes.
const (
	// maxElements bounds the elements of all lists that are read. A pod with 40,000 variables is within it.
	maxElements = 50_000
	// fewNames is how many names of one object are not counted, unless they are longer than shortName.
	fewNames  = 64
	shortName = 256
	// maxNames bounds the names beyond those, of all objects, skipped ones too: managed fields name every variable.
	maxNames = 2 * maxElements
	// maxLetters bounds the bytes of names that are counted: the decoder keeps them in a text that grows, and has it twice then. It is what
	// the API server takes of a whole object.
	maxLetters = 3 << 20
	// maxAnnotation bounds what is read of one label or annotation, in bytes: what the API server takes of all.
	maxAnnotation = 256 << 10
)

// What an object that is over a bound is told.
var (
	sayElements   = "want at most " + strconv.Itoa(maxElements) + " elements in all lists of a pod's spec and metadata"
	sayNames      = "want fewer keys: at most " + strconv.Itoa(maxNames) + " in all objects that have more than " + strconv.Itoa(fewNames)
	sayLetters    = "want shorter keys: at most " + strconv.Itoa(maxLetters) + " bytes in all"
	sayAnnotation = "want at most " + strconv.Itoa(maxAnnotation) + " bytes"
)

// bounds are what may still be read. Readers of parts of the same object share them.
type bounds struct {
	elements, names, letters int
}

func newBounds() *bounds { return &bounds{elements: maxElements, names: maxNames, letters: maxLetters} }

// element takes one element, or says that there are too many.
func (b *bounds) element() bool {
	b.elements--
	return b.elements >= 0
}

// name takes an object's nth name, counted from 1, of so many bytes, or says what there is too much of.
func (b *bounds) name(nth, length int) (problem string) {
	if nth > fewNames {
		b.names--
	}
	if nth > fewNames || length > shortName {
		b.letters -= length
	}
	switch {
	case b.names < 0:
		return sayNames
	case b.letters < 0:
		return sayLetters
	}
	return ""
}

// over names the place at which an object is over a bound. Where the keys are too long the place is one of them, and is left out: it would
// be written several times over.
func (r *reader) over(problem string) error {
	if problem == sayLetters {
		return &Error{Problem: problem}
	}
	return &Error{Path: fieldPath(string(r.dec.StackPointer())), Problem: problem}
}
