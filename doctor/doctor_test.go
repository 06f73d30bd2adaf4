package doctor

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// now is the time of every examination in these tests.
var now = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// TestHealthyInstallation holds every check to its good word on an installation with nothing wrong.
func TestHealthyInstallation(t *testing.T) {
	t.Parallel()
	findings := Examine(healthy(t))
	var checks []Check
	for _, f := range findings {
		checks = append(checks, f.Check)
		if f.Severity != OK {
			t.Errorf("finding on a healthy installation: %+v", f)
		}
		if f.Message == "" {
			t.Errorf("check %s says nothing", f.Check)
		}
	}
	if diff := cmp.Diff(Checks(), checks); diff != "" {
		t.Errorf("checks (-want +got):\n%s", diff)
	}
	if Failed(findings) {
		t.Error("Failed = true on a healthy installation")
	}
}

// TestUnreadSources shows that no check passes for healthy while one of its sources could not be read.
func TestUnreadSources(t *testing.T) {
	t.Parallel()
	for _, source := range []Source{
		SourceVersion, SourceSettings, SourceWebhooks, SourceSecrets, SourceIssuance, SourceEndpoints, SourcePolicies,
		SourceNamespaces, SourceRBAC, SourcePods, SourceJobs, SourceCA,
	} {
		t.Run(string(source), func(t *testing.T) {
			t.Parallel()
			s := healthy(t)
			s.Unread[source] = "not allowed: secrets is forbidden"
			findings := Examine(s)
			for _, e := range examinations() {
				if !slices.Contains(e.needs, source) {
					continue
				}
				of := slices.DeleteFunc(slices.Clone(findings), func(f Finding) bool { return f.Check != e.check })
				if len(of) != 1 || of[0].Severity != Warn || !strings.Contains(of[0].Message, "not allowed") {
					t.Errorf("check %s without %s = %+v, want one warning that says why", e.check, source, of)
				}
			}
			if !slices.ContainsFunc(findings, func(f Finding) bool { return f.Severity == Warn && strings.Contains(f.Message, "not allowed") }) {
				t.Errorf("nothing says that %s could not be read", source)
			}
		})
	}
}

// fault is one thing broken in a healthy installation and what must be found.
type fault struct {
	breaks       func(*Snapshot)
	wantCheck    Check
	wantSeverity Severity
	wantSubject  string
	wantMessage  string // part of it
}

// runFaults breaks one thing at a time.
func runFaults(t *testing.T, cases map[string]fault) {
	t.Helper()
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := healthy(t)
			tc.breaks(&s)
			findings := Examine(s)
			i := slices.IndexFunc(findings, func(f Finding) bool {
				return f.Check == tc.wantCheck && f.Severity == tc.wantSeverity && f.Subject == tc.wantSubject && strings.Contains(f.Message, tc.wantMessage)
			})
			if i < 0 {
				t.Fatalf("no finding %s %s on %q with %q; got:\n%s", tc.wantSeverity, tc.wantCheck, tc.wantSubject, tc.wantMessage, bad(findings))
			}
			if findings[i].Advice == "" {
				t.Error("the finding says nothing of what to do")
			}
			if got, want := Failed(findings), tc.wantSeverity == Fail; got != want {
				t.Errorf("Failed = %v, want %v; got:\n%s", got, want, bad(findings))
			}
		})
	}
}

// bad prints the findings that are not good.
func bad(findings []Finding) string {
	var b strings.Builder
	for _, f := range findings {
		if f.Severity != OK {
			b.WriteString(string(f.Severity) + " " + string(f.Check) + " " + f.Subject + ": " + f.Message + "\n")
		}
	}
	return b.String()
}
