package preview

import (
	"bytes"
	"fmt"

	"github.com/rogpeppe/go-internal/diff"
	"sigs.k8s.io/yaml"
)

// YAML renders an object with its keys sorted, so that two renderings differ only where the objects do. What a person could not see is
// escaped.
func YAML(object []byte) ([]byte, error) {
	render := yaml.JSONToYAML
	if bytes.ContainsFunc(object, hidden) {
		render = visible
	}
	out, err := render(object)
	if err != nil {
		return nil, fmt.Errorf("rendering YAML: %w", err)
	}
	return out, nil
}

// Diff gives the unified diff from the document to what would be admitted, both in normal form; nil without difference.
func (r Result) Diff() ([]byte, error) {
	before, err := YAML(r.Document.Raw)
	if err != nil {
		return nil, err
	}
	after, err := YAML(r.After)
	if err != nil {
		return nil, err
	}
	title := r.Document.Title()
	text := diff.Diff(title, before, title+" (as admitted)", after)
	// The first line ("diff a b") is for trees of files.
	_, text, _ = bytes.Cut(text, []byte("\n"))
	return text, nil
}
