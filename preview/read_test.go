package preview

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRead(t *testing.T) {
	t.Parallel()
	const pod = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"}}`
	nested := strings.Repeat(`{"apiVersion":"v1","kind":"List","items":[`, 12) + pod + strings.Repeat("]}", 12)
	for name, tc := range map[string]struct {
		in         string
		want       []string // title and place
		wantFaults []string
	}{
		"nothing":                              {in: ""},
		"comments alone":                       {in: "# one\n---\n# two\n...\n"},
		"a document without separator":         {in: "apiVersion: v1\nkind: Pod\n", want: []string{"Pod @ f, document 1"}},
		"a byte order mark":                    {in: "\xef\xbb\xbfapiVersion: v1\nkind: Pod\n", want: []string{"Pod @ f, document 1"}},
		"windows line ends":                    {in: "---\r\napiVersion: v1\r\nkind: Pod\r\n---\r\napiVersion: v1\r\nkind: Pod\r\n", want: []string{"Pod @ f, document 1", "Pod @ f, document 2"}},
		"content behind the separator":         {in: "--- {apiVersion: v1, kind: Pod}\n", want: []string{"Pod @ f, document 1"}},
		"an end mark":                          {in: "apiVersion: v1\nkind: Pod\n...\napiVersion: v1\nkind: Pod\n", want: []string{"Pod @ f, document 1", "Pod @ f, document 2"}},
		"dashes within a text":                 {in: "apiVersion: v1\nkind: Pod\nx: |\n  ---\n  y\n", want: []string{"Pod @ f, document 1"}},
		"JSON values in a row":                 {in: pod + "\n" + pod, want: []string{"Pod/p @ f, document 1", "Pod/p @ f, document 2"}},
		"a flow mapping that is no JSON":       {in: "{apiVersion: v1, kind: Pod}", want: []string{"Pod @ f, document 1"}},
		"a generated name":                     {in: "apiVersion: v1\nkind: Pod\nmetadata: {generateName: x-, namespace: ns}\n", want: []string{"Pod/ns/x-* @ f, document 1"}},
		"a name that would steer the terminal": {in: `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"x\u001b[2J"}}`, want: []string{"Pod/x\ufffd[2J @ f, document 1"}},
		"a List":                               {in: `{"apiVersion":"v1","kind":"List","items":[` + pod + `,` + pod + `]}`, want: []string{"Pod/p @ f, document 1, item 1", "Pod/p @ f, document 1, item 2"}},
		"an empty List":                        {in: `{"apiVersion":"v1","kind":"List","items":[]}`},
		"a kind that only ends in List":        {in: `{"apiVersion":"x/v1","kind":"AllowList","spec":{}}`, want: []string{"AllowList @ f, document 1"}},
		"items of a typed list":                {in: `{"apiVersion":"batch/v1","kind":"JobList","items":[{"metadata":{"name":"j"}}]}`, want: []string{"Job/j @ f, document 1, item 1"}},
		"a List within a List":                 {in: `{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1","kind":"List","items":[` + pod + `]}]}`, want: []string{"Pod/p @ f, document 1, item 1.1"}},
		"Lists without end":                    {in: nested, wantFaults: []string{"f: document 1, item 1.1.1.1.1.1.1.1, line 1: lists are nested more than 8 deep"}},
		"a bad item":                           {in: `{"apiVersion":"v1","kind":"List","items":[7,` + pod + `]}`, want: []string{"Pod/p @ f, document 1, item 2"}, wantFaults: []string{"f: document 1, item 1, line 1: not a Kubernetes object: a mapping with apiVersion, kind and metadata is expected"}},
		"a name that YAML takes for a truth":   {in: "apiVersion: v1\nkind: Pod\nmetadata: {name: n}\n", wantFaults: []string{"f: document 1, line 1: " + errNotText.Error()}},
		"no apiVersion":                        {in: "\n\nkind: Pod\n", wantFaults: []string{"f: document 1, line 3: not a Kubernetes object: apiVersion is missing"}},
		"a scanner's error, first line":        {in: "a: b: c\n", wantFaults: []string{"f: document 1, line 1: not valid YAML: mapping values are not allowed in this context"}},
		"a parser's error":                     {in: "a:\n  b: 1\n c: 2\n", wantFaults: []string{"f: document 1, line 3: not valid YAML: did not find expected key"}},
		"a tab":                                {in: "# c\n---\na: 1\n\tb: 1\n", wantFaults: []string{"f: document 1, line 4: not valid YAML: found a tab character that violates indentation"}},
		"a duplicate key in JSON":              {in: "{\"a\":1,\n\"a\":2}", wantFaults: []string{`f: document 1, line 2: not valid YAML: key "a" already set in map`}},
		"a value that looks like an alias":     {in: "a: *s3cret\n", wantFaults: []string{"f: document 1: not valid YAML: unknown anchor referenced"}},
		"a good one behind a bad one":          {in: "a: [\n---\napiVersion: v1\nkind: Pod\n", want: []string{"Pod @ f, document 2"}, wantFaults: []string{"f: document 1, line 2: not valid YAML: did not find expected node content"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			docs, faults := Read("f", []byte(tc.in))
			var got, gotFaults []string
			for _, d := range docs {
				got = append(got, d.Title()+" @ "+d.Place())
			}
			for _, f := range faults {
				gotFaults = append(gotFaults, f.Error())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("documents (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.wantFaults, gotFaults); diff != "" {
				t.Errorf("faults (-want +got):\n%s", diff)
			}
		})
	}
}

// FuzzRead holds that whatever comes out is an object that is JSON and names its kind, and that nothing is lost silently.
func FuzzRead(f *testing.F) {
	for _, seed := range []string{"", "---", "a: 1", "{", `{"kind":"List","apiVersion":"v1","items":[{}]}`, "apiVersion: v1\nkind: Pod\n---\n- a", "&a [*a]", "--- |\n x"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		docs, faults := Read("f", data)
		for _, d := range docs {
			if !json.Valid(d.Raw) || d.Kind.Kind == "" || d.Index < 1 || d.Line < 1 {
				t.Errorf("document %+v is not whole", d)
			}
		}
		for _, fault := range faults {
			if fault.Err == nil || fault.Index < 1 || strings.Contains(fault.Error(), "\n") {
				t.Errorf("fault %v is not whole", fault)
			}
		}
	})
}
