package main

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lanyard-k8s/lanyard/api/jobs"
)

func TestTheTableOfJobs(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	code := func(n int) *int { return &n }
	found := []jobs.Job{
		{ID: "0a1b2c3d4e5f", Workspace: "default", Job: "nightly", Task: "main", Image: "trainer:1", State: jobs.Running, Created: now.Add(-90 * time.Second)},
		{ID: "1a1b2c3d4e5f", Workspace: "w", Job: "j", Task: "t", Image: "i", State: jobs.Starting, Created: now.Add(time.Second)},
		{ID: "2a1b2c3d4e5f", Workspace: "w", Job: "ok", Task: "t", Image: "i", State: jobs.Ended, ExitCode: code(0), End: "exited", Created: now.Add(-90 * time.Minute)},
		{ID: "3a1b2c3d4e5f", Workspace: "w", Job: "bad", Task: "t", Image: "i", State: jobs.Ended, ExitCode: code(7), End: "exited", Created: now.Add(-30 * time.Hour)},
		{ID: "4a1b2c3d4e5f", Workspace: "w", Job: "oom", Task: "t", Image: "i", State: jobs.Ended, ExitCode: code(137), End: "out_of_memory", Created: now.Add(-72 * time.Hour)},
		{ID: "5a1b2c3d4e5f", Workspace: "w", Job: "gone", Task: "t", Image: "i\x1b[31m", State: jobs.Ended, End: "removed", Created: now},
	}
	want := `ID            JOB                   IMAGE     AGE  STATE
0a1b2c3d4e5f  default/nightly/main  trainer:1  90s  running
1a1b2c3d4e5f  w/j/t                 i          0s   starting
2a1b2c3d4e5f  w/ok/t                i          90m  ended (0)
3a1b2c3d4e5f  w/bad/t               i          30h  ended (7)
4a1b2c3d4e5f  w/oom/t               i          3d   ended (137, out of memory)
5a1b2c3d4e5f  w/gone/t              i [31m     0s   ended (removed)
`
	want = strings.Replace(want, "IMAGE     AGE", "IMAGE      AGE", 1)
	for _, coloured := range []bool{false, true} {
		var out strings.Builder
		if err := printJobs(streams{out: &out}, painter{on: coloured}, found, now); err != nil {
			t.Fatal(err)
		}
		got := out.String()
		if coloured {
			if strings.Count(got, "\x1b[32m") != 1 || strings.Count(got, "\x1b[31m") != 3 {
				t.Errorf("colours: %q", got)
			}
			for _, c := range []string{"\x1b[32m", "\x1b[31m", "\x1b[0m"} {
				got = strings.ReplaceAll(got, c, "")
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("coloured %v (-want +got):\n%s", coloured, diff)
		}
	}
	var none strings.Builder
	if err := printJobs(streams{out: &none}, painter{}, nil, now); err != nil || none.String() != "You have no jobs.\n" {
		t.Errorf("no jobs: %q, %v", none.String(), err)
	}
}

// TestAnEndBecomesAnExitCode: the container's own wherever there is one, with a word on what the code does not say.
func TestAnEndBecomesAnExitCode(t *testing.T) {
	t.Parallel()
	code := func(n int) *int { return &n }
	tests := map[string]struct {
		job  jobs.Job
		code int
		said string
	}{
		"well":               {jobs.Job{ExitCode: code(0), End: "exited"}, 0, ""},
		"with a code":        {jobs.Job{ExitCode: code(3), End: "exited"}, 3, ""},
		"stopped":            {jobs.Job{ExitCode: code(143), End: "stopped"}, 143, ""},
		"out of memory":      {jobs.Job{ExitCode: code(137), End: "out_of_memory"}, 137, "it took more memory than it may"},
		"revoked, no code":   {jobs.Job{End: "revoked"}, exitRun, "its identity was revoked"},
		"revoked":            {jobs.Job{ExitCode: code(137), End: "revoked"}, 137, "its identity was revoked"},
		"removed":            {jobs.Job{End: "removed"}, exitRun, "removed by somebody else"},
		"nobody knows":       {jobs.Job{}, exitRun, "nobody knows how the job ended"},
		"a word of tomorrow": {jobs.Job{End: "evaporated"}, exitRun, "nobody knows how the job ended"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var said strings.Builder
			a := &attached{s: streams{err: &said}}
			if got := exitCode(a.end(tc.job), &said); got != tc.code || !strings.Contains(said.String(), tc.said) || strings.Count(said.String(), "\n") > 1 {
				t.Errorf("code %d, said %q", got, said.String())
			}
		})
	}
}
