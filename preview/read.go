package preview

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"sigs.k8s.io/yaml"
)

// maxListDepth bounds Lists inside Lists.
const maxListDepth = 8

var (
	errNotObject = errors.New("not a Kubernetes object: a mapping with apiVersion, kind and metadata is expected")
	errNotText   = errors.New("apiVersion, kind and the names in metadata must be text; YAML reads words such as n, yes and 1.0 as something else, so quote them")
)

// Read takes apart a file of YAML or JSON documents, unfolding Lists. A bad document becomes a fault and the others are
// still returned, so that a person sees everything at once.
func Read(source string, data []byte) ([]Document, []Fault) {
	var docs []Document
	var faults []Fault
	index := 0
	for _, c := range split(data) {
		raws, line, err := decode(c)
		if err != nil {
			index++
			faults = append(faults, Fault{Source: source, Index: index, Line: line, Err: err})
			continue
		}
		for _, raw := range raws {
			index++
			d, f := unfold(Document{Source: source, Index: index, Line: c.first(), Raw: raw}, 0)
			docs, faults = append(docs, d...), append(faults, f...)
		}
	}
	return docs, faults
}

// decode turns a chunk into raw JSON values: one for YAML, one or more for JSON, none for comments alone. The line
// belongs to the error.
func decode(c chunk) (raws [][]byte, line int, err error) {
	trimmed := bytes.TrimSpace(c.data)
	if bytes.HasPrefix(trimmed, []byte("{")) {
		if raws, err := decodeJSON(trimmed); err == nil {
			return raws, c.line, nil
		}
		// A flow mapping that is not JSON is YAML still, and YAML's error names the line.
	}
	raw, err := yaml.YAMLToJSONStrict(append([]byte("\n"), c.data...))
	if err != nil {
		message, line := yamlError(err, c.line)
		return nil, line, errors.New(message)
	}
	if string(raw) == "null" {
		return nil, c.line, nil
	}
	return [][]byte{raw}, c.line, nil
}

// decodeJSON reads JSON values that follow one another. Duplicate keys are refused, as everywhere.
func decodeJSON(data []byte) ([][]byte, error) {
	var raws [][]byte
	dec := jsontext.NewDecoder(bytes.NewReader(data))
	for {
		value, err := dec.ReadValue()
		if errors.Is(err, io.EOF) {
			return raws, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading JSON: %w", err)
		}
		raws = append(raws, bytes.Clone(value))
	}
}

// list is a List of any kind: v1 List, PodList, JobList.
type list struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Items      []json.RawMessage `json:"items"`
}

// unfold returns the document itself, or a List's items in its place.
func unfold(d Document, depth int) ([]Document, []Fault) {
	fault := func(err error) []Fault {
		return []Fault{{Source: d.Source, Index: d.Index, Line: d.Line, Item: d.Item, Err: err}}
	}
	if err := d.identify(); err != nil {
		return nil, fault(err)
	}
	var l list
	if !strings.HasSuffix(d.Kind.Kind, "List") || json.Unmarshal(d.Raw, &l) != nil || l.Items == nil {
		return []Document{d}, nil
	}
	if depth == maxListDepth {
		return nil, fault(fmt.Errorf("lists are nested more than %d deep", maxListDepth))
	}
	var docs []Document
	var faults []Fault
	for i, raw := range l.Items {
		item := Document{Source: d.Source, Index: d.Index, Line: d.Line, Item: itemName(d.Item, i), Raw: withKind(raw, l)}
		ds, fs := unfold(item, depth+1)
		docs, faults = append(docs, ds...), append(faults, fs...)
	}
	return docs, faults
}

func itemName(parent string, i int) string {
	if parent == "" {
		return fmt.Sprintf("item %d", i+1)
	}
	return fmt.Sprintf("%s.%d", parent, i+1)
}

// withKind gives an item of a typed list (JobList) the kind and apiVersion that API servers leave out there.
func withKind(raw json.RawMessage, l list) []byte {
	var h header
	kind := strings.TrimSuffix(l.Kind, "List")
	if kind == "" || json.Unmarshal(raw, &h) != nil || h.Kind != "" || h.APIVersion != "" {
		return raw
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(raw, &fields) != nil || fields == nil {
		return raw
	}
	fields["kind"], _ = json.Marshal(kind)
	fields["apiVersion"], _ = json.Marshal(l.APIVersion)
	out, err := json.Marshal(fields)
	if err != nil {
		return raw
	}
	return out
}
