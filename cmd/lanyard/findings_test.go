package main

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lanyard-k8s/lanyard/doctor"
)

func TestPrintFindings(t *testing.T) {
	t.Parallel()
	findings := []doctor.Finding{
		{Check: doctor.CheckVersion, Severity: doctor.OK, Message: "new enough"},
		{Check: doctor.CheckWebhooks, Severity: doctor.Fail, Subject: "entry a", Message: "is <open>\nto all", Advice: "close it"},
		{Check: doctor.CheckWebhooks, Severity: doctor.Warn, Subject: "entry a", Message: "slow", Advice: "set 3"},
		{Check: doctor.CheckWebhooks, Severity: doctor.Warn, Subject: "entry b\x1b[2J", Message: "slow", Advice: "set 3"},
	}
	for name, tc := range map[string]struct {
		format string
		paint  painter
		list   []doctor.Finding
		want   string
	}{
		"text for a file": {
			format: outputText, list: findings,
			want: `ok   kubernetes_version: new enough
fail webhook_entries: entry a: is <open> to all
     -> close it
warn webhook_entries: slow
     entry a
     entry b [2J
     -> set 3

1 failed, 2 to look at, 1 fine
`,
		},
		"text for a terminal": {
			format: outputText, paint: painter{on: true}, list: findings[:1],
			want: "\x1b[32mok  \x1b[0m \x1b[1mkubernetes_version\x1b[0m: new enough\n\n0 failed, 0 to look at, 1 fine\n",
		},
		"JSON": {
			format: outputJSON, list: findings[1:2],
			want: `[
  {
    "check": "webhook_entries",
    "severity": "fail",
    "subject": "entry a",
    "message": "is <open>\nto all",
    "advice": "close it"
  }
]
`,
		},
		"JSON of what steers a terminal": {
			format: outputJSON, list: []doctor.Finding{{Check: doctor.CheckWebhooks, Severity: doctor.Warn, Subject: "a\u009b2J\x7f\u202eb", Message: "slow"}},
			want: `[
  {
    "check": "webhook_entries",
    "severity": "warn",
    "subject": "a\u009b2J\u007f\u202eb",
    "message": "slow"
  }
]
`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			if err := printFindings(&out, tc.format, tc.paint, tc.list); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, out.String()); diff != "" {
				t.Errorf("printed (-want +got):\n%s", diff)
			}
		})
	}
}

// TestOneLine: nothing in a name steers the terminal or shows another name than there is.
func TestOneLine(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		"alice@example.com": "alice@example.com", "Zoë 山": "Zoë 山", "a\x1b[2Jb": "a [2Jb", "a\u009b2Jb": "a 2Jb", "a\x9b2Jb": "a\ufffd2Jb",
		"a\nb\rc\td\x7f": "a b c d ", "a\u202eecila": "a ecila", "a\u2028b\u2029c": "a b c", "a\u200bb": "a b", "a\u0085b": "a b",
	} {
		if got := oneLine(given); got != want {
			t.Errorf("%q becomes %q, want %q", given, got, want)
		}
	}
}
