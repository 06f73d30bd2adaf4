package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// feed gives the tally a recorded stream and returns it with the packages that ended.
func feed(t *testing.T, lines string) (*tally, []pkgResult) {
	t.Helper()
	sum := newTally()
	var ended []pkgResult
	for line := range strings.Lines(lines) {
		var e event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		if res, ok := sum.add(e); ok {
			ended = append(ended, res)
		}
	}
	return sum, ended
}

func TestTally(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		stream                              string
		wantPassed, wantFailed, wantSkipped int
		wantWhy, wantClosing, wantShown     string
	}{
		"only innermost subtests count": {
			stream: `{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"run","Package":"p","Test":"TestA/one"}
{"Action":"run","Package":"p","Test":"TestA/two"}
{"Action":"pass","Package":"p","Test":"TestA/one"}
{"Action":"pass","Package":"p","Test":"TestA/two"}
{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Output":"PASS\n"}
{"Action":"output","Package":"p","Output":"ok  \tp\t0.1s\n"}
{"Action":"pass","Package":"p","Elapsed":0.1}`,
			wantPassed: 2, wantClosing: "ok  \tp\t0.1s",
		},
		"a skip keeps its reason without file and line": {
			stream: `{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA","Output":"=== RUN   TestA\n"}
{"Action":"output","Package":"p","Test":"TestA","Output":"    a_test.go:12: needs root: mounts\n"}
{"Action":"output","Package":"p","Test":"TestA","Output":"--- SKIP: TestA (0.00s)\n"}
{"Action":"skip","Package":"p","Test":"TestA"}
{"Action":"pass","Package":"p","Elapsed":0.1}`,
			wantSkipped: 1, wantWhy: "needs root: mounts", wantClosing: "ok  \tp\t100ms",
		},
		"a failure is shown in full and a passing neighbour is not": {
			stream: `{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"run","Package":"p","Test":"TestB"}
{"Action":"output","Package":"p","Test":"TestA","Output":"    a_test.go:3: chatter\n"}
{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestB","Output":"    b_test.go:9: (-want +got)\n"}
{"Action":"output","Package":"p","Test":"TestB","Output":"--- FAIL: TestB (0.00s)\n"}
{"Action":"fail","Package":"p","Test":"TestB"}
{"Action":"output","Package":"p","Output":"FAIL\n"}
{"Action":"output","Package":"p","Output":"FAIL\tp\t0.1s\n"}
{"Action":"fail","Package":"p","Elapsed":0.1}`,
			wantPassed: 1, wantFailed: 1, wantClosing: "FAIL\tp\t0.1s",
			wantShown: "    b_test.go:9: (-want +got)\n--- FAIL: TestB (0.00s)\n",
		},
		"a test that fails although its subtests pass counts once": {
			stream: `{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"run","Package":"p","Test":"TestA/one"}
{"Action":"pass","Package":"p","Test":"TestA/one"}
{"Action":"fail","Package":"p","Test":"TestA"}
{"Action":"fail","Package":"p"}`,
			wantPassed: 1, wantFailed: 1, wantClosing: "FAIL\tp\t0s",
		},
		"a race is shown where the detector has told of it, though that test passed": {
			stream: `{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"run","Package":"p","Test":"TestB"}
{"Action":"output","Package":"p","Test":"TestA","Output":"WARNING: DATA RACE\n"}
{"Action":"output","Package":"p","Test":"TestA","Output":"      a_test.go:98\n"}
{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestB","Output":"    testing.go:1712: race detected during execution of test\n"}
{"Action":"fail","Package":"p","Test":"TestB"}
{"Action":"fail","Package":"p"}`,
			wantPassed: 1, wantFailed: 1, wantClosing: "FAIL\tp\t0s",
			wantShown: "WARNING: DATA RACE\n      a_test.go:98\n    testing.go:1712: race detected during execution of test\n",
		},
		"a test that never ended failed": {
			stream: `{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA","Output":"panic: no\n"}
{"Action":"fail","Package":"p"}`,
			wantFailed: 1, wantClosing: "FAIL\tp\t0s", wantShown: "panic: no\n",
		},
		"a package that does not build is one failure with the compiler's words": {
			stream: `{"ImportPath":"p [p.test]","Action":"build-output","Output":"a.go:1:1: undefined: x\n"}
{"ImportPath":"p [p.test]","Action":"build-fail"}
{"Action":"output","Package":"p","Output":"FAIL\tp [build failed]\n"}
{"Action":"fail","Package":"p","FailedBuild":"p [p.test]"}`,
			wantFailed: 1, wantClosing: "FAIL\tp [build failed]", wantShown: "a.go:1:1: undefined: x\n",
		},
		"a package without tests is no result": {
			stream:      `{"Action":"output","Package":"p","Output":"?   \tp\t[no test files]\n"}` + "\n" + `{"Action":"skip","Package":"p"}`,
			wantClosing: "?   \tp\t[no test files]",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sum, ended := feed(t, tc.stream)
			got := []int{sum.passed, sum.failed, len(sum.skipped)}
			if diff := cmp.Diff([]int{tc.wantPassed, tc.wantFailed, tc.wantSkipped}, got); diff != "" {
				t.Errorf("passed, failed, skipped (-want +got):\n%s", diff)
			}
			if tc.wantWhy != "" && sum.skipped[0].why != tc.wantWhy {
				t.Errorf("skip reason = %q, want %q", sum.skipped[0].why, tc.wantWhy)
			}
			if len(ended) != 1 {
				t.Fatalf("%d packages ended, want 1", len(ended))
			}
			if diff := cmp.Diff(tc.wantClosing, ended[0].closing); diff != "" {
				t.Errorf("closing line (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.wantShown, ended[0].failures); diff != "" {
				t.Errorf("shown (-want +got):\n%s", diff)
			}
		})
	}
}

func TestALongListOfPackagesIsCounted(t *testing.T) {
	t.Parallel()
	for want, g := range map[string]group{
		"-race ./a ./b":      {name: "units", args: []string{"-race", "./a", "./b"}},
		"-race (4 packages)": {name: "units", args: []string{"-race", "./a", "./b", "./c", "./d"}},
	} {
		if got := g.String(); got != want {
			t.Errorf("String() = %q, want %q", got, want)
		}
	}
}

// TestWhatRunsLongestIsNamed: a test that hangs is named, and neither those that wait for their turn beside it nor those that began later.
func TestWhatRunsLongestIsNamed(t *testing.T) {
	t.Parallel()
	sum, _ := feed(t, `{"Time":"2026-01-02T03:00:00Z","Action":"run","Package":"x/a","Test":"TestFirst"}
{"Time":"2026-01-02T03:00:00Z","Action":"pause","Package":"x/a","Test":"TestFirst"}
{"Time":"2026-01-02T03:00:01Z","Action":"run","Package":"x/b","Test":"TestParent"}
{"Time":"2026-01-02T03:00:02Z","Action":"run","Package":"x/b","Test":"TestParent/hangs"}
{"Time":"2026-01-02T03:00:03Z","Action":"run","Package":"x/a","Test":"TestAlone"}
{"Time":"2026-01-02T03:00:03Z","Action":"run","Package":"x/a","Test":"TestOver"}
{"Time":"2026-01-02T03:00:04Z","Action":"pass","Package":"x/a","Test":"TestOver"}`)
	now := time.Date(2026, 1, 2, 3, 6, 2, 0, time.UTC)
	if got, want := doing(sum, now), "running TestParent/hangs of b for 6m0s and 1 more"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	for _, line := range []string{
		`{"Time":"2026-01-02T03:06:00Z","Action":"cont","Package":"x/a","Test":"TestFirst"}`,
		`{"Time":"2026-01-02T03:06:00Z","Action":"fail","Package":"x/b"}`,
		`{"Time":"2026-01-02T03:06:00Z","Action":"pass","Package":"x/a","Test":"TestAlone"}`,
	} {
		var e event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		sum.add(e)
	}
	if got, want := doing(sum, now), "running TestFirst of a for 2s"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	sum.add(event{Action: "pass", Package: "x/a"})
	if got := doing(sum, now); got != "building" {
		t.Errorf("got %q", got)
	}
}
