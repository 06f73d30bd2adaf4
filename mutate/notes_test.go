package mutate

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWarningsAreBounded(t *testing.T) {
	t.Parallel()
	long, half := strings.Repeat("ä", 200), strings.Repeat("ä", 58)
	for name, tc := range map[string]struct{ lines, want []string }{
		"none":                       {},
		"as many as there may be":    {lines: []string{"1", "2", "3", "4", "5"}, want: []string{"1", "2", "3", "4", "5"}},
		"one too many":               {lines: []string{"1", "2", "3", "4", "5", "6"}, want: []string{"1", "2", "3", "4", "and 2 more warnings"}},
		"a long one, by characters":  {lines: []string{long}, want: []string{half + "..." + half}},
		"the longest":                {lines: []string{long[:240]}, want: []string{long[:240]}},
		"more than one line, a bell": {lines: []string{"two\r\nlines\a\x7f"}, want: []string{"two  lines  "}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, bounded(tc.lines)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
