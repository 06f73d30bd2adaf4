package dockerjob_test

import (
	"testing"

	"github.com/lanyard-k8s/lanyard/dockerjob"
)

// TestTheLastLines: of what is kept of an ended job, lines are counted from the end over both outputs, however they came in.
func TestTheLastLines(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		tail   int
		pieces []string
		want   string
	}{
		"all":                       {0, []string{"a\n", "b\n"}, "a\n|b\n"},
		"one":                       {1, []string{"a\nb\n"}, "b\n"},
		"one in pieces":             {1, []string{"a\nb", "c\n"}, "b|c\n"},
		"two over pieces":           {2, []string{"a\nb\n", "c\n"}, "b\n|c\n"},
		"more than there are":       {9, []string{"a\n", "!b\n"}, "a\n|!b\n"},
		"a last line without end":   {1, []string{"a\nb"}, "b"},
		"both without end":          {3, []string{"a\nb", "!c\nd"}, "b|!c\nd"},
		"both outputs":              {2, []string{"a\n", "!b\n", "c\n"}, "!b\n|c\n"},
		"empty lines":               {2, []string{"a\n\n\n"}, "\n\n"},
		"a line between its halves": {2, []string{"x\n", "a", "!b\n", "c\n"}, "a|!b\n|c\n"},
		"nothing":                   {3, nil, ""},
	} {
		if got := dockerjob.Last(tc.tail, tc.pieces...); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}
