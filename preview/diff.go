package preview

import (
	"bytes"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/rogpeppe/go-internal/diff"
	"sigs.k8s.io/yaml"
)

// YAML renders an object with its keys sorted, so that two renderings differ only where the objects do. What a person could not see is
// escaped, however the object has it.
func YAML(object []byte) ([]byte, error) {
	// JSON has escapes that YAML's reader does not take: \/, and two of them for one character.
	plain := jsontext.Value(bytes.Clone(object))
	if err := plain.Format(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)); err != nil {
		return nil, fmt.Errorf("rendering YAML: %w", err)
	}
	render := yaml.JSONToYAML
	if bytes.ContainsFunc(plain, hidden) {
		render = visible
	}
	out, err := render(plain)
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
