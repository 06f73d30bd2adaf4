package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
)

func TestTheChartsReadmeIsFresh(t *testing.T) {
	t.Parallel()
	want, err := freshChartReadme(root)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(root, chartReadme))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s is stale; run make generate (-want +got):\n%s", chartReadme, diff)
	}
}

// TestEveryValueIsInTheTable finds each key of values.yaml in the table: its own row, or the row of a mapping on one line.
func TestEveryValueIsInTheTable(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile(filepath.Join(root, chartValues))
	if err != nil {
		t.Fatal(err)
	}
	var values map[string]any
	if err := yaml.Unmarshal(raw, &values); err != nil {
		t.Fatal(err)
	}
	table, err := valuesTable(raw)
	if err != nil {
		t.Fatal(err)
	}
	var missing []string
	var walk func(path string, v any)
	walk = func(path string, v any) {
		if strings.Contains(table, "| `"+path+"` | ") {
			if inner, ok := v.(map[string]any); !ok || !strings.Contains(table, "| `"+path+"."+anyKey(inner)) {
				return // a row of its own, which says all of it
			}
		}
		inner, ok := v.(map[string]any)
		if !ok || len(inner) == 0 {
			missing = append(missing, path)
			return
		}
		for key, v := range inner {
			walk(path+"."+key, v)
		}
	}
	for key, v := range values {
		walk(key, v)
	}
	if slices.Sort(missing); len(missing) > 0 {
		t.Errorf("not in the table: %q", missing)
	}
}

func anyKey(m map[string]any) string {
	for key := range m {
		return key
	}
	return ""
}

func TestCommentsBelongToTheKeyBelow(t *testing.T) {
	t.Parallel()
	const text = `# About the file, and no key.

# A section.
top:
  # sqlite: one file. Two
  # lines, <x> and a|b.
  # mode: audit
  # other: {a: 1}  # a remark
  key: 1
  bare: "x"
  # As in this:
  #
  #   key: value
  nested:
    # Inner.
    inner: {a: [1]}
  list:
    - key: not a value
      inner: nor this
  after: []

# Alone.
alone: {a: 1, b: ` + "\"a very long text that fills up the line and more than that, so that it is not shown in the table of values but referred to\"" + `}
`
	const want = `
### top

A section.

| value | default | meaning |
| --- | --- | --- |
| ` + "`top.mode`" + ` | not set, e.g. ` + "`audit`" + ` | sqlite: one file. Two lines, &lt;x&gt; and a\|b. |
| ` + "`top.other`" + ` | not set, e.g. ` + "`{a: 1}`" + ` | a remark |
| ` + "`top.key`" + ` | ` + "`1`" + ` |  |
| ` + "`top.bare`" + ` | ` + "`\"x\"`" + ` |  |
| ` + "`top.nested`" + ` |  | As in this: see values.yaml. |
| ` + "`top.nested.inner`" + ` | ` + "`{\"a\":[1]}`" + ` | Inner. |
| ` + "`top.list`" + ` | ` + "`[{\"inner\":\"nor this\",\"key\":\"not a value\"}]`" + ` |  |
| ` + "`top.after`" + ` | ` + "`[]`" + ` |  |

### alone

| value | default | meaning |
| --- | --- | --- |
| ` + "`alone`" + ` | see values.yaml | Alone. |

`
	got, err := valuesTable([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
