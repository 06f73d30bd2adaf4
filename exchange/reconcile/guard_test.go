package reconcile

import (
	"errors"
	"maps"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/delegation"
	"github.com/lanyard-k8s/lanyard/delegation/delegationtest"
)

// watchman is a guard without an API server, at a time that the test moves.
type watchman struct {
	*guard
	now   time.Time
	told  int
	store *delegationtest.Memory
}

func newWatchman() *watchman {
	w := &watchman{now: time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC), store: &delegationtest.Memory{}}
	w.guard = w.another()
	return w
}

// another is the guard of a process that begins with what the store remembers.
func (w *watchman) another() *guard {
	c := &serverClock{now: func() time.Time { return w.now }}
	c.learn(w.now)
	return &guard{store: w.store, margin: epochMargin, clock: c, excluded: map[string]bool{"kube-system": true}, changed: func(standing, standing) { w.told++ }}
}

// sight is what one look finds of the one policy there is.
type sight struct {
	state      State
	uid        string
	generation int64
	restart    bool // before it
}

// TestTheEpoch follows what becomes of one policy, look by look.
func TestTheEpoch(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		sights []sight
		want   []bool // whether the epoch moves, after the first look
	}{
		"nothing happens":                     {[]sight{{InOrder, "a", 1, false}, {InOrder, "a", 1, false}}, []bool{false}},
		"a restart":                           {[]sight{{InOrder, "a", 1, false}, {InOrder, "a", 1, true}}, []bool{false}},
		"weakened and mended":                 {[]sight{{InOrder, "a", 1, false}, {Drift, "a", 2, false}, {InOrder, "a", 3, false}}, []bool{false, true}},
		"weakened and mended unseen":          {[]sight{{InOrder, "a", 1, false}, {InOrder, "a", 3, false}}, []bool{true}},
		"weakened and mended in between":      {[]sight{{InOrder, "a", 1, false}, {InOrder, "a", 3, true}}, []bool{true}},
		"weakened, and a restart, and mended": {[]sight{{InOrder, "a", 1, false}, {Drift, "a", 2, false}, {InOrder, "a", 3, true}}, []bool{false, true}},
		"deleted and made again":              {[]sight{{InOrder, "a", 1, false}, {InOrder, "b", 1, true}}, []bool{true}},
		"deleted, seen":                       {[]sight{{InOrder, "a", 1, false}, {Drift, "", 0, false}, {InOrder, "b", 1, false}}, []bool{false, true}},
		"deleted, and then a rollout":         {[]sight{{InOrder, "a", 1, false}, {Drift, "", 0, false}, {Rollout, "b", 1, false}, {InOrder, "b", 2, false}}, []bool{false, false, true}},
		"a list changes, then we restart":     {[]sight{{InOrder, "a", 1, false}, {Rollout, "a", 2, false}, {InOrder, "a", 2, true}}, []bool{false, false}},
		"a list changes while we are down":    {[]sight{{InOrder, "a", 1, false}, {InOrder, "a", 2, true}}, []bool{false}},
		"a list is about to change":           {[]sight{{InOrder, "a", 1, false}, {Rollout, "a", 1, true}, {InOrder, "a", 2, false}}, []bool{false, false}},
		"a list changes and changes back":     {[]sight{{InOrder, "a", 1, false}, {Rollout, "a", 2, false}, {InOrder, "a", 3, false}}, []bool{false, true}},
		"it does, and we restart in between":  {[]sight{{InOrder, "a", 1, false}, {Rollout, "a", 2, false}, {Rollout, "a", 2, true}, {InOrder, "a", 3, true}}, []bool{false, false, true}},
		"two lists change, then we restart":   {[]sight{{InOrder, "a", 1, false}, {Rollout, "a", 2, false}, {Rollout, "a", 3, false}, {InOrder, "a", 3, true}}, []bool{false, false, true}},
		"two upgrades, one after the other":   {[]sight{{InOrder, "a", 1, false}, {Rollout, "a", 2, false}, {InOrder, "a", 2, true}, {Rollout, "a", 3, false}, {InOrder, "a", 3, true}}, []bool{false, false, false, false}},
		"two changes while we are down":       {[]sight{{InOrder, "a", 1, false}, {Rollout, "a", 3, true}, {InOrder, "a", 3, true}}, []bool{false, true}},
		"deleted and made again as a rollout": {[]sight{{InOrder, "a", 1, false}, {Rollout, "b", 1, false}, {InOrder, "b", 1, true}}, []bool{false, true}},
		"an older copy":                       {[]sight{{InOrder, "a", 5, false}, {InOrder, "a", 4, true}}, []bool{true}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWatchman()
			for i, s := range tc.sights {
				w.now = w.now.Add(time.Minute)
				if s.restart {
					w.guard = w.another()
				}
				if i == 0 || s.restart {
					if err := w.load(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				w.clock.learn(w.now)
				before := w.guard.now.epoch
				next := standing{state: s.state, epoch: before, seen: map[string]delegation.Seen{}}
				if s.uid != "" {
					next.seen["p"+policySuffix] = delegation.Seen{UID: s.uid, Generation: s.generation}
				}
				got, err := w.settle(t.Context(), next)
				if err != nil {
					t.Fatal(err)
				}
				want := i == 0 || tc.want[i-1]
				if moved := !got.epoch.Equal(before); moved != want {
					t.Errorf("look %d: the epoch moved %t, want %t", i, moved, want)
				}
				if want && !got.epoch.Equal(w.now.Add(epochMargin)) {
					t.Errorf("look %d: the epoch is %s at %s", i, got.epoch, w.now)
				}
				saved, err := w.store.Guard(t.Context())
				if err != nil || !saved.Epoch.Equal(got.epoch) {
					t.Errorf("look %d: saved %s, %v", i, saved.Epoch, err)
				}
			}
		})
	}
}

// TestAnEpochThatIsNotSavedDoesNotCount: no verdict rests on what a restart would forget.
func TestAnEpochThatIsNotSavedDoesNotCount(t *testing.T) {
	t.Parallel()
	w := newWatchman()
	w.store.Fail = func() error { return delegation.ErrUnavailable }
	next := standing{state: InOrder, seen: map[string]delegation.Seen{"p" + policySuffix: {UID: "a", Generation: 1}}}
	if got, err := w.settle(t.Context(), next); !errors.Is(err, delegation.ErrUnavailable) || got.guards("ns").InOrder || w.told > 0 {
		t.Errorf("got %+v, %v", got, err)
	}
	w.store.Fail = nil
	w.clock.learn(w.now.Add(time.Hour))
	if got, err := w.settle(t.Context(), next); !errors.Is(err, errClock) || got.guards("ns").InOrder {
		t.Errorf("with a clock that differs: %+v, %v", got, err)
	}
}

func TestManagedSince(t *testing.T) {
	t.Parallel()
	w := newWatchman()
	at := func(minutes int) *metav1.Time {
		v := metav1.NewTime(w.now.Add(time.Duration(minutes) * time.Minute))
		return &v
	}
	space := func(name, uid string, minutes int) *metav1.PartialObjectMetadata {
		return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(uid), ManagedFields: []metav1.ManagedFieldsEntry{
			{Time: at(minutes), FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:labels":{"f:` + wire.LabelJobs + `":{}}}}`)},
		}}}
	}
	look := func(spaces ...*metav1.PartialObjectMetadata) standing {
		t.Helper()
		next := standing{state: InOrder, epoch: w.guard.now.epoch, seen: w.guard.now.seen}
		if err := w.namespaces(spaces, &next); err != nil {
			t.Fatal(err)
		}
		got, err := w.settle(t.Context(), next)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	dying := space("dying", "d", -9)
	dying.DeletionTimestamp = at(0)
	got := look(space("runs", "a", -9), space("kube-system", "k", -9), dying)
	if !got.managed["runs"].Equal(at(-9).Time) || len(got.managed) != 1 {
		t.Errorf("managed: %v", got.managed)
	}
	if g := got.guards("other"); g.Managed || !got.guards("runs").Managed {
		t.Errorf("the guards of another namespace: %+v", g)
	}
	if got := look(space("runs", "a", -3), space("kube-system", "k", -9)); !got.managed["runs"].Equal(at(-9).Time) {
		t.Errorf("another label, written later, moved it to %s", got.managed["runs"])
	}
	w.guard.excluded = nil
	if got := look(space("runs", "a", -9), space("kube-system", "k", -9)); !got.managed["kube-system"].Equal(w.now.Add(epochMargin)) {
		t.Errorf("a namespace that was left out is managed since %s", got.managed["kube-system"])
	}
	if got := look(space("runs", "a", -9), space("kube-system", "k", -9)); !got.managed["kube-system"].Equal(w.now.Add(epochMargin)) {
		t.Errorf("looked at again, it is managed since %s", got.managed["kube-system"])
	}
	look()
	if got := look(space("runs", "a", -1)); !got.managed["runs"].Equal(at(-1).Time) {
		t.Errorf("the label was taken off and put on again: %s", got.managed["runs"])
	}
	if got := look(space("runs", "b", -2)); !got.managed["runs"].Equal(at(-2).Time) {
		t.Errorf("another namespace of the name: %s", got.managed["runs"])
	}
	w.guard = w.another()
	if err := w.load(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := look(space("runs", "b", -1)); !got.managed["runs"].Equal(at(-2).Time) || !w.manages("runs") {
		t.Errorf("a restart moved it to %s", got.managed["runs"])
	}
}

// TestManagedSinceTheyAreInOrder follows one namespace while its name leaves the list of those that are left out, look by look, a minute
// apart. What the list of before left out, the policies of before did not look at, however long they stood.
func TestManagedSinceTheyAreInOrder(t *testing.T) {
	t.Parallel()
	const never, aLabel = -1, -2
	type look struct {
		excluded   bool
		labelled   bool
		state      State
		generation int64 // of the policy
		restart    bool
	}
	tests := map[string]struct {
		looks []look
		old   bool // the database is of a version that noted labelled namespaces alone
		want  int  // the look from which the namespace counts, at the end
	}{
		"policies that come an hour later":  {[]look{{true, true, InOrder, 1, false}, {false, true, Drift, 1, true}, {false, true, InOrder, 2, true}}, false, 2},
		"and nobody restarts":               {[]look{{true, true, InOrder, 1, false}, {false, true, Rollout, 1, true}, {false, true, InOrder, 2, false}, {false, true, InOrder, 2, false}}, false, 2},
		"while they are awaited":            {[]look{{true, true, InOrder, 1, false}, {false, true, Drift, 1, true}}, false, never},
		"policies that come first":          {[]look{{true, true, InOrder, 1, false}, {false, true, InOrder, 2, true}}, false, 1},
		"labelled while they are awaited":   {[]look{{true, false, InOrder, 1, false}, {false, false, Drift, 1, true}, {false, true, Drift, 1, false}, {false, true, InOrder, 2, true}}, false, 3},
		"labelled while nobody looks":       {[]look{{true, false, InOrder, 1, false}, {false, true, InOrder, 2, true}}, false, 1},
		"the label taken off and put back":  {[]look{{true, true, InOrder, 1, false}, {false, false, Drift, 1, true}, {false, true, Drift, 1, false}, {false, true, InOrder, 2, true}}, false, 3},
		"labelled long afterwards":          {[]look{{true, false, InOrder, 1, false}, {false, false, InOrder, 2, true}, {false, true, InOrder, 2, false}}, false, 2},
		"on the list for an upgrade only":   {[]look{{false, true, InOrder, 1, false}, {true, true, Drift, 1, true}, {false, true, InOrder, 1, true}}, false, 2},
		"never on the list":                 {[]look{{false, false, InOrder, 1, false}, {false, true, Rollout, 1, true}, {false, true, InOrder, 2, true}}, false, aLabel},
		"an old database":                   {[]look{{true, false, InOrder, 1, false}, {false, true, Drift, 1, true}, {false, true, InOrder, 2, true}}, true, 2},
		"an old database, in order at once": {[]look{{true, false, InOrder, 1, false}, {false, true, InOrder, 2, true}, {false, true, InOrder, 2, false}}, true, 1},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWatchman()
			first := w.now
			label := metav1.NewTime(first.Add(30 * time.Second)) // before the second look
			team := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "team-a", UID: "a", ManagedFields: []metav1.ManagedFieldsEntry{
				{Time: &label, FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:labels":{"f:` + wire.LabelJobs + `":{}}}}`)},
			}}}
			var got standing
			for i, l := range tc.looks {
				w.now = first.Add(time.Duration(i) * time.Minute)
				if i == 0 || l.restart {
					w.guard = w.another()
					if err := w.load(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				w.guard.excluded = map[string]bool{"kube-system": true, "team-a": l.excluded}
				if !l.excluded {
					delete(w.guard.excluded, "team-a")
				}
				var spaces []*metav1.PartialObjectMetadata
				if l.labelled {
					spaces = append(spaces, team)
				}
				got = w.sees(t, l.state, l.generation, spaces)
				if i == 0 && tc.old {
					w.forgetNames(t)
				}
			}
			if want := first.Add(epochMargin); !got.epoch.Equal(want) {
				t.Errorf("the epoch is %s, want %s", got.epoch, want)
			}
			g := got.guards("team-a")
			if !g.Managed || g.InOrder != (tc.want != never) {
				t.Errorf("the guards are %+v", g)
			}
			want := metav1.NewTime(first.Add(time.Duration(tc.want)*time.Minute + epochMargin))
			if tc.want == aLabel {
				want = label
			}
			if saved := w.guard.now.seen[sincePrefix+"team-a"]; tc.want == never {
				if saved.UID != leftOut {
					t.Errorf("it is noted as %+v", saved)
				}
			} else if !g.Since.Equal(&want) {
				t.Errorf("it is managed since %s, want %s", g.Since, want)
			}
		})
	}
}

// sees is one look that finds the policy and the namespaces so.
func (w *watchman) sees(t *testing.T, state State, generation int64, spaces []*metav1.PartialObjectMetadata) standing {
	t.Helper()
	w.clock.learn(w.now)
	next := standing{state: state, epoch: w.guard.now.epoch, seen: map[string]delegation.Seen{"p" + policySuffix: {UID: "a", Generation: generation}}}
	if err := w.namespaces(spaces, &next); err != nil {
		t.Fatal(err)
	}
	got, err := w.settle(t.Context(), next)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// forgetNames has the store remember what an earlier version noted: the policies, and no namespace without the label.
func (w *watchman) forgetNames(t *testing.T) {
	t.Helper()
	saved, err := w.store.Guard(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	maps.DeleteFunc(saved.Policies, func(_ string, s delegation.Seen) bool { return s.UID == leftOut })
	if _, err := w.store.Advance(t.Context(), saved); err != nil {
		t.Fatal(err)
	}
}

// TestTheFirstEpochIsTheNamespaces: between the two readings of the API server's time another answer has come, whose Date is cut to the
// second.
func TestTheFirstEpochIsTheNamespaces(t *testing.T) {
	t.Parallel()
	w := newWatchman()
	w.guard.now.seen = map[string]delegation.Seen{sincePrefix + "team-a": {UID: leftOut}}
	second := w.now
	w.now = second.Add(900 * time.Millisecond)
	next := standing{state: InOrder, seen: map[string]delegation.Seen{"p" + policySuffix: {UID: "a", Generation: 1}}}
	if err := w.namespaces([]*metav1.PartialObjectMetadata{{ObjectMeta: metav1.ObjectMeta{Name: "team-a", UID: "a"}}}, &next); err != nil {
		t.Fatal(err)
	}
	w.clock.learn(second)
	got, err := w.settle(t.Context(), next)
	if err != nil {
		t.Fatal(err)
	}
	if want := second.Add(epochMargin); !got.epoch.Equal(want) || !got.managed["team-a"].Equal(want) {
		t.Errorf("the epoch is %s, and the namespace is managed since %s; want %s", got.epoch, got.managed["team-a"], want)
	}
}
