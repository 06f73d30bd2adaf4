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
