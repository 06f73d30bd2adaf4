package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/lanyard-k8s/lanyard/internal/obs"
	"github.com/lanyard-k8s/lanyard/mutate"
	"github.com/lanyard-k8s/lanyard/preview"
)

// The formats of preview.
const (
	outputDiff  = "diff"
	outputPatch = "patch"
	outputYAML  = "yaml"
	outputJSON  = "json"
)

func outputs() []string { return []string{outputDiff, outputPatch, outputYAML, outputJSON} }

// report prints results and remembers the worst. In the format diff all but faults goes to standard output; in the other
// formats standard output is for programs, and what is said to people goes to standard error.
type report struct {
	format string
	out    io.Writer
	people io.Writer
	errs   io.Writer
	paint  painter
	worst  int
	docs   [][]byte // what is printed at the end, in the formats yaml and json
}

func newReport(f previewFlags, s streams) (*report, error) {
	if err := oneOf("output", f.output, outputs()...); err != nil {
		return nil, err
	}
	r := &report{format: f.output, out: s.out, people: s.err, errs: s.err}
	if f.output == outputDiff {
		r.people = s.out
	}
	paint, err := newPainter(f.color, r.people)
	r.paint = paint
	return r, err
}

// fault prints what could not be read.
func (r *report) fault(err error) {
	r.worst = max(r.worst, exitUsage)
	complain(r.errs, err.Error())
}

// result prints one document's answer.
func (r *report) result(res preview.Result) {
	switch res.Verdict {
	case preview.Unreadable:
		d := res.Document
		r.fault(preview.Fault{Source: d.Source, Index: d.Index, Line: d.Line, Item: d.Item, Err: res.Err})
		r.patch(nil)
		return
	case preview.Unchanged, preview.Changed:
		r.emit(res)
	default: // refused, and whatever else may come to be
		r.worst = max(r.worst, exitFound)
		r.explain(res)
		r.patch(nil)
	}
}

// emit prints a document that would be admitted.
func (r *report) emit(res preview.Result) {
	r.explain(res)
	switch r.format {
	case outputPatch:
		r.patch(res.Patch)
	case outputYAML, outputJSON:
		r.docs = append(r.docs, res.After)
	default:
		text, err := res.Diff()
		if err != nil {
			r.fault(err)
			return
		}
		r.paint.diff(r.out, text)
	}
}

// patch prints one document's patch on a line of its own; a refused or unreadable document has an empty one, so that
// lines and documents stay in step.
func (r *report) patch(ops []mutate.Op) {
	if r.format != outputPatch {
		return
	}
	if ops == nil {
		ops = []mutate.Op{}
	}
	line, err := marshal(ops)
	if err != nil {
		r.fault(fmt.Errorf("writing the patch: %w", err))
		return
	}
	r.out.Write(line)
}

// close prints what was kept for the end and gives the exit code.
func (r *report) close() error {
	var err error
	switch r.format {
	case outputYAML:
		err = r.writeYAML()
	case outputJSON:
		err = r.writeJSON()
	}
	if err != nil {
		return err
	}
	if r.worst > 0 {
		return codedError{code: r.worst}
	}
	return nil
}

func (r *report) writeYAML() error {
	for i, doc := range r.docs {
		text, err := preview.YAML(doc)
		if err != nil {
			return err
		}
		if i > 0 {
			fmt.Fprintln(r.out, "---")
		}
		r.out.Write(text)
	}
	return nil
}

// writeJSON prints one object as it is, several as a List.
func (r *report) writeJSON() error {
	var v any
	items := make([]json.RawMessage, len(r.docs))
	for i, doc := range r.docs {
		items[i] = doc
	}
	switch len(items) {
	case 0:
		return nil
	case 1:
		v = items[0]
	default:
		v = map[string]any{"apiVersion": "v1", "kind": "List", "items": items}
	}
	return printJSON(r.out, v)
}

// printJSON prints JSON as a person reads it.
func printJSON(w io.Writer, v any) error {
	line, err := marshal(v)
	if err != nil {
		return fmt.Errorf("writing JSON: %w", err)
	}
	pretty := jsontext.Value(line)
	if err := pretty.Indent(jsontext.WithIndent("  ")); err != nil {
		return fmt.Errorf("writing JSON: %w", err)
	}
	_, err = fmt.Fprintf(w, "%s\n", bytes.TrimSpace(pretty))
	return err
}

// marshal writes JSON on one line, with <, > and & as they are, and what steers a terminal or turns a text around escaped: programs read
// the same of it.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return obs.Visible(b.Bytes()), err
}
