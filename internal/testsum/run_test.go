package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestSummaryClosesWithTheTotals(t *testing.T) {
	t.Parallel()
	units, cluster := newTally(), newTally()
	units.passed = 7
	cluster.passed, cluster.skipped = 2, []skipped{{testKey{"p", "TestRoot"}, "needs root"}}
	var b strings.Builder
	ok := summarise(&b, []outcome{
		{group{name: "units"}, units, true, time.Second}, {group{name: "cluster"}, cluster, true, time.Second},
	})
	if !ok || !strings.HasSuffix(b.String(), "\n9 passed, 0 failed, 1 skipped\n") || !strings.Contains(b.String(), "TestRoot (p): needs root") {
		t.Errorf("ok %v, summary:\n%s", ok, b.String())
	}
}

func TestAFailedGroupFailsTheRun(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	if run(t.Context(), &b, []group{{name: "none", args: []string{"./no/such/place"}}}) {
		t.Errorf("a pattern without packages passed:\n%s", b.String())
	}
	if !strings.Contains(b.String(), "0 passed, 1 failed, 0 skipped") {
		t.Errorf("summary:\n%s", b.String())
	}
}

// TestGroupsBesideEachOtherMeet runs three groups of which each waits for the others: the second stands beside the first, which
// ends early; the third comes when the first has ended and meets the second, which nobody waited for.
func TestGroupsBesideEachOtherMeet(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TESTSUM_MEETING", dir)
	var b strings.Builder
	meet := func(name string, beside bool, meets string) group {
		return group{name: name, beside: beside, args: []string{"-count=1", "-run=^TestMeeting$", "-args", "-me=" + name, "-meets=" + meets}}
	}
	if !run(t.Context(), &b, []group{meet("one", false, "two"), meet("two", true, "three"), meet("three", false, "one")}) {
		t.Errorf("the groups did not run at the same time:\n%s", b.String())
	}
	if !strings.Contains(b.String(), "3 passed, 0 failed, 0 skipped") {
		t.Errorf("summary:\n%s", b.String())
	}
}

var (
	me    = flag.String("me", "", "one side of TestMeeting")
	meets = flag.String("meets", "", "another, which must have been there")
)

// TestMeeting is one side of TestGroupsBesideEachOtherMeet.
func TestMeeting(t *testing.T) {
	dir := os.Getenv("TESTSUM_MEETING")
	if dir == "" || *me == "" {
		return // run by itself: there is nobody to meet
	}
	if err := os.WriteFile(filepath.Join(dir, *me), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	look, late := time.NewTicker(10*time.Millisecond), time.After(time.Minute)
	defer look.Stop()
	for {
		if _, err := os.Stat(filepath.Join(dir, *meets)); err == nil {
			return
		}
		select {
		case <-look.C:
		case <-late:
			t.Fatal("the other side did not come within a minute")
		}
	}
}

func TestGroupsAreReadFromTheArguments(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		args    []string
		want    []string
		wantErr string
	}{
		"one after the other":       {[]string{"-group", "a", "x", "-group", "b", "y"}, []string{"a: x", "b: y"}, ""},
		"the second and third meet": {[]string{"-group", "a", "x", "-group", "b", "y", "-beside", "c", "z"}, []string{"a: x", "b: y", "c: z, beside"}, ""},
		"nothing to stand beside":   {[]string{"-beside", "a", "x"}, nil, "-beside needs a -group before it to run beside"},
		"a name is missing":         {[]string{"-group", "a", "x", "-beside"}, nil, "-beside needs a name and then what to hand to go test"},
		"arguments and no group":    {[]string{"-race"}, nil, `"-race" stands before the first -group`},
		"nothing":                   {nil, nil, "nothing to run; say -group NAME and then what to hand to go test"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			groups, err := parseGroups(tc.args)
			if got := fmt.Sprint(err); err != nil && got != tc.wantErr || err == nil && tc.wantErr != "" {
				t.Fatalf("error %v, want %q", err, tc.wantErr)
			}
			var got []string
			for _, g := range groups {
				text := g.name + ": " + g.String()
				if g.beside {
					text += ", beside"
				}
				got = append(got, text)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("groups (-want +got):\n%s", diff)
			}
		})
	}
}
