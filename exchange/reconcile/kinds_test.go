package reconcile

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lanyard-k8s/lanyard/delegation"
	"github.com/lanyard-k8s/lanyard/exchange/provenance"
	"github.com/lanyard-k8s/lanyard/policy"
)

var (
	jobs     = provenance.GroupKind{Group: "batch", Kind: "Job"}
	cronJobs = provenance.GroupKind{Group: "batch", Kind: "CronJob"}
	trainers = provenance.GroupKind{Group: "example.com", Kind: "Trainer"}
)

func TestStampedKinds(t *testing.T) {
	t.Parallel()
	s := settings()
	s.Kinds = append(s.Kinds, policy.Kind{Group: "example.com", Kind: "Trainer", Resource: "training"})
	s.Delegating = append(s.Delegating, policy.Controller{Identity: "x", Parents: []string{"example.com/Trainer", "example.com/Fleet"}})
	want := map[provenance.GroupKind]string{jobs: "jobs", cronJobs: "cronjobs", trainers: "training", {Group: "example.com", Kind: "Fleet"}: "fleets"}
	if diff := cmp.Diff(want, stampedKinds(s, rulesOf(s))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestListedSince follows since when kinds count, look by look, a minute apart.
func TestListedSince(t *testing.T) {
	t.Parallel()
	type look struct {
		kinds   map[provenance.GroupKind]string
		state   State
		restart bool
	}
	const never = -1
	builtin := map[provenance.GroupKind]string{jobs: "jobs", cronJobs: "cronjobs"}
	custom := map[provenance.GroupKind]string{jobs: "jobs", cronJobs: "cronjobs", trainers: "trainers"}
	misnamed := map[provenance.GroupKind]string{jobs: "jobs", cronJobs: "cronjobs", trainers: "trainer"}
	at := func(jobsSince, trainersSince int) map[provenance.GroupKind]int {
		return map[provenance.GroupKind]int{jobs: jobsSince, cronJobs: jobsSince, trainers: trainersSince}
	}
	tests := map[string]struct {
		looks []look
		want  map[provenance.GroupKind]int // the look from which it counts, at the end
	}{
		"the first look":                                    {[]look{{custom, InOrder, false}}, at(0, 0)},
		"looked at again":                                   {[]look{{custom, InOrder, false}, {custom, InOrder, false}, {custom, InOrder, true}}, at(0, 0)},
		"listed later":                                      {[]look{{builtin, InOrder, false}, {custom, InOrder, true}}, at(0, 1)},
		"listed later, in order later still":                {[]look{{builtin, InOrder, false}, {custom, Drift, true}, {custom, Rollout, false}, {custom, InOrder, false}}, at(0, 3)},
		"not listed for a while":                            {[]look{{custom, InOrder, false}, {builtin, InOrder, true}, {custom, InOrder, true}}, at(0, 2)},
		"not listed for a while, but never in order so":     {[]look{{custom, InOrder, false}, {builtin, Rollout, true}, {custom, InOrder, true}}, at(0, 0)},
		"out of order for a while":                          {[]look{{custom, InOrder, false}, {custom, Rollout, false}, {custom, InOrder, false}}, at(0, 0)},
		"its resource was misspelt":                         {[]look{{misnamed, InOrder, false}, {custom, InOrder, true}}, at(0, 1)},
		"nothing counts while the policies are in no order": {[]look{{custom, InOrder, false}, {custom, Drift, false}}, at(never, never)},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWatchman()
			first := w.now
			var got standing
			for i, l := range tc.looks {
				w.now = first.Add(time.Duration(i) * time.Minute)
				if i == 0 || l.restart {
					w.guard = w.another()
					if err := w.load(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				w.guard.kinds = l.kinds
				got = w.lookAt(t, l.state)
			}
			for kind, n := range tc.want {
				since, ok := got.guards("ns").Kinds[kind]
				if n == never {
					if ok {
						t.Errorf("%s counts from %s", kind, since)
					}
				} else if want := metav1.NewTime(first.Add(time.Duration(n)*time.Minute + epochMargin)); !since.Equal(&want) {
					t.Errorf("%s counts from %s, want %s", kind, since, want)
				}
			}
		})
	}
}

// lookAt is one look that finds the policies so.
func (w *watchman) lookAt(t *testing.T, state State) standing {
	t.Helper()
	w.clock.learn(w.now)
	next := standing{state: state, epoch: w.guard.now.epoch, seen: map[string]delegation.Seen{"p" + policySuffix: {UID: "a", Generation: 1}}}
	if err := w.listed(t.Context(), &next); err != nil {
		t.Fatal(err)
	}
	got, err := w.settle(t.Context(), next)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// TestTheFirstEpochIsTheKinds: between the two readings of the API server's time another answer has come, whose Date is cut to the second.
func TestTheFirstEpochIsTheKinds(t *testing.T) {
	t.Parallel()
	w := newWatchman()
	w.guard.kinds = map[provenance.GroupKind]string{jobs: "jobs"}
	if err := w.load(t.Context()); err != nil {
		t.Fatal(err)
	}
	second := w.now
	w.now = second.Add(900 * time.Millisecond)
	next := standing{state: InOrder, seen: map[string]delegation.Seen{"p" + policySuffix: {UID: "a", Generation: 1}}}
	if err := w.listed(t.Context(), &next); err != nil {
		t.Fatal(err)
	}
	w.clock.learn(second)
	w.now = w.now.Add(400 * time.Microsecond) // an epoch is stored without them
	got, err := w.settle(t.Context(), next)
	if err != nil {
		t.Fatal(err)
	}
	saved, err := w.store.Guard(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	since := got.kinds[jobs]
	if want := second.Add(epochMargin); !got.epoch.Equal(want) || !since.Time.Equal(want) || saved.Policies[kindPrefix+"batch/Job"].Generation != want.Unix() {
		t.Errorf("the epoch is %s, and Jobs count from %s, saved %+v; want %s", got.epoch, since, saved.Policies, want)
	}
}

// TestADatabaseWithoutKinds: after an upgrade from a version that did not remember kinds, Jobs of before keep their word, and CronJobs if one
// had it: what nobody knows to have been listed has none.
func TestADatabaseWithoutKinds(t *testing.T) {
	t.Parallel()
	away := errors.New("connection refused")
	for name, tc := range map[string]struct {
		via   string   // whose submitter was copied when a Job was confirmed; empty is a Job that a person made
		found []string // the CronJobs that there are, by UID
		err   error
		old   bool // whether CronJobs count from the epoch
		want  error
	}{
		"one of them made a Job":         {"c-2", []string{"c-1", "c-2"}, nil, true, nil},
		"none of them did":               {"another-parent", []string{"c-1", "c-2"}, nil, false, nil},
		"listed in this very upgrade":    {"", []string{"c-1"}, nil, false, nil},
		"there is none":                  {"c-2", nil, nil, false, nil},
		"they are undefined":             {"c-2", nil, errUndefined, false, nil},
		"the API server cannot be asked": {"c-2", nil, away, false, away},
		"the database cannot be asked":   {"c-2", []string{"c-2"}, nil, false, delegation.ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWatchman()
			epoch := w.now.Add(-time.Hour + 300*time.Millisecond)
			if _, err := w.store.Advance(t.Context(), delegation.Guard{Epoch: epoch, Policies: map[string]delegation.Seen{"p" + policySuffix: {UID: "a", Generation: 1}}}); err != nil {
				t.Fatal(err)
			}
			for _, s := range []delegation.Submission{{UID: "j-1", Name: "one"}, {UID: "j-2", Name: "two", ViaUID: tc.via}} {
				s.GroupKind, s.Namespace, s.Cluster, s.Submitter, s.Audiences = "batch/Job", "ns", "test", "alice", []string{"api"}
				s.State, s.ConfirmedAt = delegation.Confirmed, w.now
				if _, err := w.store.Confirm(t.Context(), s); err != nil {
					t.Fatal(err)
				}
			}
			if err := w.load(t.Context()); err != nil {
				t.Fatal(err)
			}
			w.guard.kinds = map[provenance.GroupKind]string{jobs: "jobs", cronJobs: "cronjobs", trainers: "trainers"}
			w.guard.uids = func(_ context.Context, kind provenance.GroupKind) ([]string, error) {
				if kind != cronJobs {
					t.Errorf("asked for the objects of %s", kind)
				}
				return tc.found, tc.err
			}
			if errors.Is(tc.want, delegation.ErrUnavailable) {
				w.store.Fail = func() error { return delegation.ErrUnavailable }
			}
			if tc.want != nil {
				w.clock.learn(w.now)
				if err := w.listed(t.Context(), &standing{state: InOrder, epoch: epoch}); !errors.Is(err, tc.want) {
					t.Errorf("got %v, want %v", err, tc.want)
				}
				return
			}
			got := w.lookAt(t, InOrder)
			if !got.epoch.Equal(epoch) {
				t.Errorf("the epoch moved to %s", got.epoch)
			}
			cut, margin := metav1.NewTime(w.now.Add(-time.Hour+time.Second)), metav1.NewTime(w.now.Add(epochMargin))
			want := map[provenance.GroupKind]metav1.Time{jobs: cut, cronJobs: margin, trainers: margin}
			if tc.old {
				want[cronJobs] = cut
			}
			if diff := cmp.Diff(want, got.kinds, cmp.Comparer(func(a, b metav1.Time) bool { return a.Equal(&b) })); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
