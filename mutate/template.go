package mutate

import (
	"fmt"
	"strings"

	"github.com/lanyard-k8s/lanyard/mutate/manifest"
)

// Template answers the validating entry for objects that hold pod templates, so that the person who submits one is told
// what her pods would be refused for, and not a controller. It finds templates in any kind. On UPDATE only what the update
// adds counts. An error means that the request is malformed.
func Template(req Request, rules Rules) (Decision, error) {
	templates, err := manifest.Templates(req.Object)
	if err != nil {
		return Decision{}, fmt.Errorf("reading object: %w", err)
	}
	l := &ledger{}
	if req.Operation == Update && len(req.OldObject) > 0 {
		old, err := manifest.Templates(req.OldObject)
		if err != nil {
			return Decision{}, fmt.Errorf("reading old object: %w", err)
		}
		l.learn(func() { each(&rules, &req, old, l) })
	}
	each(&rules, &req, templates, l)
	return l.decide(&rules), nil
}

// each reviews every template into one ledger.
func each(rules *Rules, req *Request, templates []manifest.Template, l *ledger) {
	for i := range templates {
		t := &templates[i]
		base := t.Path
		if base != "" {
			base += "."
		}
		newReview(rules, req, &t.Pod, base, withoutIndices(base), l).look()
	}
}

// withoutIndices drops what stands in brackets, which an edit elsewhere in the object may shift.
func withoutIndices(path string) string {
	var b strings.Builder
	for path != "" {
		head, rest, found := strings.Cut(path, "[")
		b.WriteString(head)
		if !found {
			break
		}
		_, path, _ = strings.Cut(rest, "]")
	}
	return b.String()
}
