package preview

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"

	"github.com/lanyard-k8s/lanyard/mutate"
)

// Document is one object of the input: where it stood and what it says of itself. Raw is its JSON, with every field that
// the person wrote, also those that no API type knows.
type Document struct {
	Source string // the file as the person named it
	Index  int    // 1 for the file's first document that is not empty
	Line   int    // the line that the document starts on, from 1
	Item   string // "item 2" when the object was unfolded from a List

	Kind      mutate.GroupKind
	Version   string // with the group, as in the manifest: "batch/v1"
	Namespace string // as the manifest says; often empty
	Name      string // the name, or the generateName followed by "*"
	Raw       []byte
}

// Title names the object as kubectl does, "Job/train" or "Job/ml/train".
func (d Document) Title() string {
	parts := []string{d.Kind.Kind}
	if d.Namespace != "" {
		parts = append(parts, d.Namespace)
	}
	if d.Name != "" {
		parts = append(parts, d.Name)
	}
	return strings.Map(printable, strings.Join(parts, "/"))
}

// printable keeps a name from steering the terminal that it is shown on.
func printable(r rune) rune {
	if unicode.IsPrint(r) {
		return r
	}
	return unicode.ReplacementChar
}

// Place says where the object stands: "job.yaml, document 2, item 3".
func (d Document) Place() string {
	place := fmt.Sprintf("%s, document %d", d.Source, d.Index)
	if d.Item != "" {
		place += ", " + d.Item
	}
	return place
}

// Fault is a document (or with Index 0 a whole file) that could not be read. Line counts from 1 in the file; 0 means
// that the line is not known.
type Fault struct {
	Source string
	Index  int
	Line   int
	Item   string
	Err    error
}

// Error gives the file, the document, the line and what is wrong, on one line.
func (f Fault) Error() string {
	where := f.Source
	if f.Index > 0 {
		where += fmt.Sprintf(": document %d", f.Index)
	}
	if f.Item != "" {
		where += ", " + f.Item
	}
	if f.Line > 0 {
		where += fmt.Sprintf(", line %d", f.Line)
	}
	return fmt.Sprintf("%s: %v", where, f.Err)
}

// Unwrap gives the cause.
func (f Fault) Unwrap() error { return f.Err }

// header is what every Kubernetes object says of itself.
type header struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name         string `json:"name"`
		GenerateName string `json:"generateName"`
		Namespace    string `json:"namespace"`
	} `json:"metadata"`
}

// identify fills in what the raw object says of itself. An object without kind or apiVersion is refused: no API server
// would know what to do with it either.
func (d *Document) identify() error {
	var h header
	if err := json.Unmarshal(d.Raw, &h); err != nil {
		if bytes.HasPrefix(bytes.TrimSpace(d.Raw), []byte("{")) {
			return errNotText
		}
		return errNotObject
	}
	switch {
	case h.Kind == "":
		return fmt.Errorf("not a Kubernetes object: kind is missing")
	case h.APIVersion == "":
		return fmt.Errorf("not a Kubernetes object: apiVersion is missing")
	}
	group, _, found := strings.Cut(h.APIVersion, "/")
	if !found {
		group = ""
	}
	d.Kind = mutate.GroupKind{Group: group, Kind: h.Kind}
	d.Version = h.APIVersion
	d.Namespace = h.Metadata.Namespace
	d.Name = h.Metadata.Name
	if d.Name == "" && h.Metadata.GenerateName != "" {
		d.Name = h.Metadata.GenerateName + "*"
	}
	return nil
}
