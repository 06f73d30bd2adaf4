package preview

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// TestYAMLHidesNothing: a direction mark in a manifest made a terminal show another command than the one that would run, in -o yaml and in
// the diff, while -o json escaped it. What is escaped reads back as it was.
func TestYAMLHidesNothing(t *testing.T) {
	t.Parallel()
	for name, value := range map[string]string{
		"a plain scalar":              "rm \u202egnp.x",
		"one with quotes":             "it's \u2066 \"so\" \\ \\u202e",
		"one of several lines":        "first \u200b\nsecond\n\u2029third\n",
		"another end of a line":       "a\u2028b\u0085c",
		"controls of some terminals":  "a\u009b2J\u007f",
		"a mark beyond 16 bits":       "a\U000e0041b",
		"a mark at the beginning":     "\ufeffa",
		"a word that YAML would read": "yes\u200d",
		"a long one":                  strings.Repeat("word ", 60) + "\u202e",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			object := map[string]any{"plain": "Zoë 山", "n": 1.0, "word": "yes", "number": "1", "nothing": nil, "empty": map[string]any{}, "list": []any{map[string]any{"command": value, value: "key"}, value}}
			raw, err := json.Marshal(object)
			if err != nil {
				t.Fatal(err)
			}
			text, err := YAML(raw)
			if err != nil {
				t.Fatal(err)
			}
			if i := strings.IndexFunc(string(text), hidden); i >= 0 {
				t.Errorf("a hidden character stands at %d: %q", i, text)
			}
			if !strings.Contains(string(text), "plain: Zoë 山\n") {
				t.Errorf("what can be seen is not left alone: %s", text)
			}
			var got map[string]any
			if err := yaml.Unmarshal(text, &got); err != nil {
				t.Fatalf("%v: %s", err, text)
			}
			if diff := cmp.Diff(object, got); diff != "" {
				t.Errorf("read back (-want +got):\n%s", diff)
			}
		})
	}
}

// TestYAMLHidesNoEscape: a manifest of JSON stays as it was written, and its escapes are as hidden in it as the characters are in YAML. What
// JSON alone can escape is not refused.
func TestYAMLHidesNoEscape(t *testing.T) {
	t.Parallel()
	for object, want := range map[string]string{
		`{"a":"x\u202ey"}`:            `a: "x\u202ey"` + "\n",
		`{"a":["x\u2066","\u200Bx"]}`: `a:` + "\n" + `- "x\u2066"` + "\n" + `- "\u200bx"` + "\n",
		`{"a":{"x\u202ey":"b"}}`:      `a:` + "\n" + `  "x\u202ey": b` + "\n",
		`{"a":"b\u2028c\u0085d"}`:     `a: "b\Lc\Nd"` + "\n",
		`{"a":"x\udb40\udc41"}`:       `a: "x\U000E0041"` + "\n",
		`{"a":"x\ud83d\ude00\/y"}`:    `a: "x\U0001F600/y"` + "\n",
		`{"a":"x\u202e\/y"}`:          `a: "x\u202e/y"` + "\n",
		`{"a":"x\\u202ey"}`:           `a: x\u202ey` + "\n", // a backslash and a word
	} {
		t.Run(object, func(t *testing.T) {
			t.Parallel()
			text, err := YAML([]byte(object))
			if err != nil || string(text) != want {
				t.Fatalf("got %q, %v; want %q", text, err, want)
			}
			var before, after any
			if err := json.Unmarshal([]byte(object), &before); err != nil {
				t.Fatal(err)
			}
			if err := yaml.Unmarshal(text, &after); err != nil {
				t.Fatalf("%v: %s", err, text)
			}
			if diff := cmp.Diff(before, after); diff != "" {
				t.Errorf("read back (-want +got):\n%s", diff)
			}
		})
	}
}
