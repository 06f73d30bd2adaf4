package delegation_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lanyard-k8s/lanyard/delegation"
)

// TestSubmissionExhaustively applies every step to every submission, three deep, and states what must hold afterwards.
func TestSubmissionExhaustively(t *testing.T) {
	t.Parallel()
	steps := map[string]func(delegation.Submission) delegation.Submission{
		"confirm": func(s delegation.Submission) delegation.Submission { s, _ = s.Confirm(submission()); return s },
		"end":     func(s delegation.Submission) delegation.Submission { return s.End(delegation.WorkFinished, at(10)) },
		"revoke": func(s delegation.Submission) delegation.Submission {
			return s.Revoke(delegation.SubmissionRevoked, at(11))
		},
		"observe": func(s delegation.Submission) delegation.Submission {
			return s.Observe(delegation.Observation{Generation: 2, Since: at(5)})
		},
		"erase": func(s delegation.Submission) delegation.Submission { return s.Erase() },
	}
	for _, first := range steps {
		for _, second := range steps {
			for _, third := range steps {
				s := delegation.Submission{}
				for _, step := range []func(delegation.Submission) delegation.Submission{first, second, third} {
					before := s
					s = step(s)
					checkStep(t, before, s)
					if again := step(s); !cmp.Equal(s, again) {
						t.Fatalf("the same step twice (-once +twice):\n%s", cmp.Diff(s, again))
					}
				}
			}
		}
	}
}

func checkStep(t *testing.T, before, after delegation.Submission) {
	t.Helper()
	switch {
	case before.State == delegation.Closed && after.State != delegation.Closed:
		t.Fatalf("a closed submission became %s", after.State)
	case !before.RevokedAt.IsZero() && !after.RevokedAt.Equal(before.RevokedAt):
		t.Fatal("a revocation was taken back or moved")
	case before.Submitter != "" && after.Submitter != before.Submitter && after.Submitter != "":
		t.Fatalf("the submitter %q became %q", before.Submitter, after.Submitter)
	case before.State != "" && before.Submitter == "" && after.Submitter != "":
		t.Fatal("an erased submitter came back")
	case before.State != delegation.Confirmed && before.State != "" && !after.Observed.Equal(before.Observed):
		t.Fatal("a closed submission was observed")
	case after.Open() && (!after.Live() || after.State != delegation.Confirmed):
		t.Fatalf("open and not live: %+v", after)
	case after.Live() && !after.RevokedAt.IsZero():
		t.Fatal("live though revoked")
	case after.State != "" && after.Validate() != nil:
		t.Fatalf("no submission at all: %v", after.Validate())
	}
}

func TestConfirmAgain(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*delegation.Submission)
		want   error
	}{
		"the same":                        {func(*delegation.Submission) {}, nil},
		"at another time":                 {func(s *delegation.Submission) { s.ConfirmedAt = at(50) }, nil},
		"with other audiences":            {func(s *delegation.Submission) { s.Audiences = []string{"other"} }, nil},
		"by another submitter":            {func(s *delegation.Submission) { s.Submitter = "bob" }, delegation.ErrConflict},
		"in another namespace":            {func(s *delegation.Submission) { s.Namespace = "other" }, delegation.ErrConflict},
		"of another kind":                 {func(s *delegation.Submission) { s.GroupKind = "Pod" }, delegation.ErrConflict},
		"of another cluster":              {func(s *delegation.Submission) { s.Cluster = "d" }, delegation.ErrConflict},
		"under another name":              {func(s *delegation.Submission) { s.Name = "other" }, delegation.ErrConflict},
		"by way of a parent":              {func(s *delegation.Submission) { s.ViaUID = "cron" }, delegation.ErrConflict},
		"with another UID":                {func(s *delegation.Submission) { s.UID = "other" }, delegation.ErrConflict},
		"without a submitter":             {func(s *delegation.Submission) { s.Submitter = "" }, delegation.ErrInvalid},
		"closed":                          {func(s *delegation.Submission) { *s = s.End(delegation.WorkGone, at(1)) }, delegation.ErrInvalid},
		"with a zero byte":                {func(s *delegation.Submission) { s.Scopes = []string{"a", "\x00"} }, delegation.ErrInvalid},
		"without a UID":                   {func(s *delegation.Submission) { s.UID = "" }, delegation.ErrInvalid},
		"without a kind":                  {func(s *delegation.Submission) { s.GroupKind = "" }, delegation.ErrInvalid},
		"without a time":                  {func(s *delegation.Submission) { s.ConfirmedAt = time.Time{} }, delegation.ErrInvalid},
		"with a reason":                   {func(s *delegation.Submission) { s.Reason = delegation.WorkGone }, delegation.ErrInvalid},
		"of a generation that nobody saw": {func(s *delegation.Submission) { s.Observed.Generation = 1 }, delegation.ErrInvalid},
		"of a generation below zero":      {func(s *delegation.Submission) { s.Observed = delegation.Observation{Generation: -1, Since: at(0)} }, delegation.ErrInvalid},
		"of another generation":           {func(s *delegation.Submission) { s.Observed = delegation.Observation{Generation: 2, Since: at(0)} }, nil},
		"with a time of closing":          {func(s *delegation.Submission) { s.ClosedAt = at(2) }, delegation.ErrInvalid},
	} {
		want := submission()
		tc.change(&want)
		got, err := submission().Confirm(want)
		if !errors.Is(err, tc.want) || (tc.want == nil) != (err == nil) {
			t.Errorf("%s: error is %v, want %v", name, err, tc.want)
		}
		if diff := cmp.Diff(submission(), got); diff != "" {
			t.Errorf("%s: the submission changed (-want +got):\n%s", name, diff)
		}
	}
}

// TestObserve: what may have been changed while nothing guarded it is never taken for what was seen before.
func TestObserve(t *testing.T) {
	t.Parallel()
	seen := func(generation int64, since time.Time) delegation.Submission {
		s := submission()
		s.Observed = delegation.Observation{Generation: generation, Since: since}
		return s
	}
	closed := seen(3, at(10)).End(delegation.WorkGone, at(20))
	for name, tc := range map[string]struct {
		have       delegation.Submission
		generation int64
		since      time.Time
		explained  bool
		want       delegation.Submission
	}{
		"nothing has happened":                     {seen(3, at(10)), 3, at(10), true, seen(3, at(10))},
		"changed under the policies' eyes":         {seen(3, at(10)), 4, at(10), true, seen(4, at(10))},
		"unchanged while nothing guarded it":       {seen(3, at(10)), 3, at(15), true, seen(3, at(15))},
		"changed while nothing guarded it":         {seen(3, at(10)), 4, at(15), false, seen(3, at(10))},
		"changed a millisecond after":              {seen(3, at(10)), 4, at(10).Add(time.Millisecond), false, seen(3, at(10))},
		"changed, a moment cut by the store":       {seen(3, at(10)), 4, at(10).Add(time.Microsecond), true, seen(4, at(10))},
		"said by somebody who knows less":          {seen(3, at(10)), 3, at(5), true, seen(3, at(10))},
		"changed, by somebody who knows less":      {seen(3, at(10)), 4, at(5), true, seen(3, at(10))},
		"without a generation, guarded":            {seen(0, at(10)), 0, at(10), true, seen(0, at(10))},
		"without a generation, not guarded":        {seen(0, at(10)), 0, at(15), false, seen(0, at(10))},
		"never observed, confirmed since":          {submission(), 4, at(-1), true, seen(4, at(-1))},
		"never observed, confirmed before":         {submission(), 4, at(1), false, submission()},
		"closed":                                   {closed, 4, at(10), true, closed},
		"closed, changed while nothing guarded it": {closed, 4, at(15), false, closed},
	} {
		o := delegation.Observation{Generation: tc.generation, Since: tc.since}
		if got := tc.have.Seen().Explains(o); got != tc.explained {
			t.Errorf("%s: explained is %t, want %t", name, got, tc.explained)
		}
		got := tc.have.Observe(o)
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if again := got.Observe(o); !cmp.Equal(got, again) {
			t.Errorf("%s, twice (-once +twice):\n%s", name, cmp.Diff(got, again))
		}
	}
}

func TestMomentNeverRoundsUp(t *testing.T) {
	t.Parallel()
	in := time.Date(2026, 1, 2, 3, 4, 5, 6_999_999, time.FixedZone("x", 3600))
	want := time.Date(2026, 1, 2, 2, 4, 5, 6_000_000, time.UTC)
	if got := delegation.Moment(in); got != want {
		t.Errorf("moment = %v, want %v", got, want)
	}
	if got := delegation.Moment(time.Time{}); !got.IsZero() {
		t.Errorf("the zero time became %v", got)
	}
}

func TestMarks(t *testing.T) {
	t.Parallel()
	here := delegation.Mark{Lineage: "a", Ended: 7}
	for name, tc := range map[string]struct {
		seen delegation.Mark
		want error
	}{
		"never seen":           {delegation.Mark{}, nil},
		"the same":             {here, nil},
		"seen before":          {delegation.Mark{Lineage: "a", Ended: 3}, nil},
		"an older copy":        {delegation.Mark{Lineage: "a", Ended: 8}, delegation.ErrRestored},
		"another database":     {delegation.Mark{Lineage: "b", Ended: 7}, delegation.ErrRestored},
		"an older, other one":  {delegation.Mark{Lineage: "b", Ended: 1}, delegation.ErrRestored},
		"a mark without years": {delegation.Mark{Ended: 1}, delegation.ErrRestored},
	} {
		if err := here.Check(tc.seen); !errors.Is(err, tc.want) || (tc.want == nil) != (err == nil) {
			t.Errorf("%s: error is %v, want %v", name, err, tc.want)
		}
	}
	after := here.After(delegation.Mark{Lineage: "b", Ended: 9}, "c")
	if diff := cmp.Diff(delegation.Mark{Lineage: "c", Ended: 10}, after); diff != "" {
		t.Errorf("mark after a restore (-want +got):\n%s", diff)
	}
}

func TestGuardMovesForward(t *testing.T) {
	t.Parallel()
	g := delegation.Guard{Epoch: at(5), Policies: map[string]delegation.Seen{"p": {UID: "u", Generation: 1}}, Mark: delegation.Mark{Lineage: "a"}}
	back := g.Advance(delegation.Guard{Epoch: at(4), Mark: delegation.Mark{Lineage: "forged"}})
	if diff := cmp.Diff(g, back); diff != "" {
		t.Errorf("the guard went back (-want +got):\n%s", diff)
	}
	want := delegation.Guard{Epoch: at(6), Policies: map[string]delegation.Seen{}, Mark: g.Mark}
	if diff := cmp.Diff(want, g.Advance(delegation.Guard{Epoch: at(6), Policies: map[string]delegation.Seen{}})); diff != "" {
		t.Errorf("guard differs (-want +got):\n%s", diff)
	}
}

func TestReasonsAreListedOnce(t *testing.T) {
	t.Parallel()
	lasting := map[delegation.Reason]bool{
		delegation.PodEnded: true, delegation.PodGone: true, delegation.ContainerEnded: true, delegation.StartFailed: true,
		delegation.WorkFinished: true, delegation.WorkGone: true,
	}
	seen := map[delegation.Reason]bool{}
	for _, r := range delegation.Reasons() {
		if r == "" || seen[r] || r.Lasting() != lasting[r] {
			t.Errorf("reason %q: listed twice, empty, or lasting is %v", r, r.Lasting())
		}
		seen[r] = true
	}
	if delegation.Reason("new").Lasting() {
		t.Error("an unknown reason is lasting")
	}
}
