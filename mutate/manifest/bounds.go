package manifest

import "strconv"

// A few bytes of text become a hundred of memory when they are an element of a list that is kept, or a name in an object of many, which
// the decoder keeps to find one that stands twice. So an object may hold only so many of both, however small they are: what is larger
// than any pod that runs, and small beside what the text itself takes.
const (
	// maxElements bounds the elements of all lists that are read. A pod with 40,000 variables is within it.
	maxElements = 50_000
	// fewNames is how many names of one object are not counted.
	fewNames = 64
	// maxNames bounds the names beyond those, of all objects, skipped ones too: managed fields name every variable.
	maxNames = 2 * maxElements
	// maxAnnotation bounds what is read of one label or annotation, in bytes: what the API server takes of all.
	maxAnnotation = 256 << 10
)

// What an object that is over a bound is told.
var (
	sayElements   = "want at most " + strconv.Itoa(maxElements) + " elements in all lists of a pod's spec and metadata"
	sayNames      = "want fewer keys: at most " + strconv.Itoa(maxNames) + " in all objects that have more than " + strconv.Itoa(fewNames)
	sayAnnotation = "want at most " + strconv.Itoa(maxAnnotation) + " bytes"
)

// bounds are what may still be read. Readers of parts of the same object share them.
type bounds struct {
	elements, names int
}

func newBounds() *bounds { return &bounds{elements: maxElements, names: maxNames} }

// element takes one element, or says that there are too many.
func (b *bounds) element() bool {
	b.elements--
	return b.elements >= 0
}

// name takes one name, or says that there are too many.
func (b *bounds) name() bool {
	b.names--
	return b.names >= 0
}

// over names the place at which an object is over a bound.
func (r *reader) over(problem string) error {
	return &Error{Path: fieldPath(string(r.dec.StackPointer())), Problem: problem}
}
