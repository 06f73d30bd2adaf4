package provenance

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/lanyard-k8s/lanyard/delegation"
)

func TestWork(t *testing.T) {
	t.Parallel()
	cron := object(cronJob(), "nightly", "alice", nil)
	nightly := object(job(), "nightly-1", cronController, &cron)
	alter := func(o Object, f func(*Object)) Object { f(&o); return o }
	tests := map[string]struct {
		work    Object
		live    Live
		g       Guards
		outcome Outcome
		reason  Reason
		who     string
		via     string
	}{
		"alice's Job": {object(job(), "a", "alice", nil), nil, guards(), Confirmed, "", "alice", ""},
		"a CronJob's Job is the CronJob's creator's": {nightly, live(cron), guards(), Confirmed, "", "alice", "uid-nightly"},
		"bob's Job from alice's CronJob is bob's":    {object(job(), "manual", "bob", &cron), live(cron), guards(), Confirmed, "", "bob", ""},
		"a parent that is gone":                      {nightly, Live{cron.Reference: nil}, guards(), Refused, OwnerGone, "", ""},
		"a parent that was not read":                 {nightly, nil, guards(), NotYet, NotRead, "", ""},
		"a parent older than the epoch":              {nightly, live(alter(cron, func(o *Object) { o.Created = at(9) })), guards(), Refused, BeforeGuards, "", ""},
		"a parent without stamp":                     {nightly, live(alter(cron, func(o *Object) { o.Stamped = false })), guards(), Refused, Unstamped, "", ""},
		"a parent of a service account":              {nightly, live(alter(cron, func(o *Object) { o.Stamp = jobController })), guards(), Refused, CreatorRefused, "", ""},
		"a delegate's Job without parent":            {object(job(), "a", cronController, nil), nil, guards(), Refused, NoParent, "", ""},
		"a delegate's Job of another kind's": {func() Object {
			other := object(GroupKind{"apps", "Deployment"}, "web", "alice", nil)
			return object(job(), "a", cronController, &other)
		}(), nil, guards(), Refused, NoParent, "", ""},
		"a delegate's Job of two parents": {alter(nightly, func(o *Object) { o.Controllers = append(o.Controllers, o.Controllers[0]) }), live(cron), guards(), Refused, Ambiguous, "", ""},
		"a Job that opted out":            {alter(object(job(), "a", jobController, nil), func(o *Object) { o.OptedOut = true }), nil, guards(), Exempt, OptedOut, "", ""},
		"a suspended Job is confirmed":    {alter(object(job(), "a", "alice", nil), func(o *Object) { o.Suspended = true }), nil, guards(), Confirmed, "", "alice", ""},
		"a finished Job":                  {alter(object(job(), "a", "alice", nil), func(o *Object) { o.Finished = true }), nil, guards(), Refused, WorkFinished, "", ""},
		"a Job that is being deleted":     {alter(object(job(), "a", "alice", nil), func(o *Object) { o.Deleting = true }), nil, guards(), Refused, WorkDeleted, "", ""},
		"a Job older than the epoch":      {alter(object(job(), "a", "alice", nil), func(o *Object) { o.Created = at(9) }), nil, guards(), Refused, BeforeGuards, "", ""},
		"policies that are down":          {object(job(), "a", "alice", nil), nil, Guards{Epoch: at(10), Managed: true}, NotYet, GuardsDown, "", ""},
		"the zero guards":                 {object(job(), "a", "alice", nil), nil, Guards{}, Exempt, NotManaged, "", ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := rules().Work(tc.work, tc.live, tc.g)
			if got.Outcome != tc.outcome || got.Reason != tc.reason || got.Submitter != tc.who || got.Via != tc.via {
				t.Errorf("got %+v, want %s %s %q via %q", got, tc.outcome, tc.reason, tc.who, tc.via)
			}
		})
	}
}

// TestAKindThatIsListedLater: before its kind was listed nobody looked at an object's stamp, so no object of that time is believed, nor
// what comes of it.
func TestAKindThatIsListedLater(t *testing.T) {
	t.Parallel()
	since := func(minutes map[GroupKind]int) Guards {
		g := guards()
		g.Kinds = map[GroupKind]metav1.Time{}
		for k, m := range minutes {
			g.Kinds[k] = at(m)
		}
		return g
	}
	cron := object(cronJob(), "nightly", "alice", nil)
	nightly := object(job(), "nightly-1", cronController, &cron)
	planted := object(job(), "planted", "alice", nil)
	tests := map[string]struct {
		work  Object
		kinds map[GroupKind]int
		want  Reason
		about Reference
	}{
		"its kind is listed since":                {planted, map[GroupKind]int{job(): 20}, "", Reference{}},
		"its kind is listed later":                {planted, map[GroupKind]int{job(): 21}, BeforeGuards, planted.Reference},
		"its kind is not listed":                  {planted, map[GroupKind]int{cronJob(): 1}, BeforeGuards, planted.Reference},
		"its parent's kind is listed since":       {nightly, map[GroupKind]int{job(): 20, cronJob(): 20}, "", Reference{}},
		"its parent's kind is listed later":       {nightly, map[GroupKind]int{job(): 1, cronJob(): 21}, BeforeGuards, cron.Reference},
		"its parent's kind is not listed":         {nightly, map[GroupKind]int{job(): 1}, BeforeGuards, cron.Reference},
		"it is listed later than its parent's":    {nightly, map[GroupKind]int{job(): 21, cronJob(): 1}, BeforeGuards, nightly.Reference},
		"another's kind is listed, and that late": {planted, map[GroupKind]int{job(): 1, cronJob(): 59}, "", Reference{}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := since(tc.kinds)
			got := rules().Work(tc.work, live(cron), g)
			if got.Reason != tc.want || got.About != tc.about || (got.Outcome == Confirmed) != (tc.want == "") {
				t.Errorf("got %+v, want %q about %+v", got, tc.want, tc.about)
			}
			if pod := rules().Pod(pod(jobController, &tc.work), live(cron, tc.work), nil, g, at(60)); pod.Reason != tc.want || pod.About != tc.about {
				t.Errorf("its pod: %+v", pod)
			}
		})
	}
}

// TestAKindThatWasNotListedForAWhile: work that was confirmed before its kind left the list gets no more rows when the kind is back.
func TestAKindThatWasNotListedForAWhile(t *testing.T) {
	t.Parallel()
	work := object(job(), "train", "alice", nil)
	for since, want := range map[int]Reason{5: "", 20: "", 21: BeforeGuards} {
		g := guards()
		g.Kinds[job()] = at(since)
		got := rules().Pod(pod(jobController, &work), live(work), seenBy("alice", 1, 10), g, at(60))
		if got.Reason != want || (got.Outcome == Confirmed) != (want == "") {
			t.Errorf("listed since %d: got %+v, want %q", since, got, want)
		}
	}
	g := guards()
	g.Epoch = at(25)
	if got := rules().Pod(pod(jobController, &work), live(work), seenBy("alice", 1, 10), g, at(60)); got.Outcome != Confirmed {
		t.Errorf("an epoch that has moved since: %+v", got)
	}
}

// TestLevels follows parents of parents, of a controller that makes them for each other.
func TestLevels(t *testing.T) {
	t.Parallel()
	r := rules()
	r.Delegating[0].Parents = append(r.Delegating[0].Parents, job())
	for levels := range 6 {
		o := object(cronJob(), "root", "alice", nil)
		all := []Object{o}
		for i := range levels {
			o = object(job(), fmt.Sprint("level-", i), cronController, &all[i])
			all = append(all, o)
		}
		want := Verdict{
			Outcome: Confirmed, Submission: o.Reference, Submitter: "alice", Observed: delegation.Observation{Generation: 1, Since: at(10).Time},
		}
		if levels > 0 {
			want.Via = all[levels-1].UID
		}
		if levels > 3 {
			want = Verdict{Outcome: Refused, Reason: TooDeep}
		}
		if diff := cmp.Diff(want, r.Work(o, live(all...), guards())); diff != "" {
			t.Errorf("%d levels (-want +got):\n%s", levels, diff)
		}
	}
	loop := object(job(), "loop", cronController, nil)
	loop = object(job(), "loop", cronController, &loop)
	if got := r.Work(loop, live(loop), guards()); got.Reason != TooDeep {
		t.Errorf("an object that owns itself: %+v", got)
	}
}

func TestRead(t *testing.T) {
	t.Parallel()
	u := &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{
			"namespace": "ns", "name": "train", "uid": "u", "creationTimestamp": "2026-01-01T12:20:00Z", "generation": int64(4), "deletionTimestamp": "2026-01-01T12:30:00Z",
			"annotations":     map[string]any{"lanyard.dev/created-by": "alice"},
			"ownerReferences": []any{map[string]any{"apiVersion": "batch/v1", "kind": "CronJob", "name": "c", "uid": "cu", "controller": true}, map[string]any{"kind": "Other"}},
		},
		"spec":   map[string]any{"suspend": true, "template": map[string]any{"metadata": map[string]any{"labels": map[string]any{"lanyard.dev/role": "none"}}}},
		"status": map[string]any{"conditions": []any{map[string]any{"type": "Failed", "status": "False"}, map[string]any{"type": "Complete", "status": "True"}}},
	}}
	got := Read(job(), u)
	if len(got.Controllers) != 1 || referred(got.Controllers[0], "ns") != (Reference{cronJob(), "ns", "c", "cu"}) {
		t.Errorf("controllers %+v", got.Controllers)
	}
	got.Controllers, got.Created = nil, at(20)
	want := Object{
		Reference: Reference{job(), "ns", "train", "u"}, Stamp: "alice", Stamped: true, Created: at(20), Generation: 4,
		Deleting: true, Finished: true, Suspended: true, OptedOut: true,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if Read(GroupKind{"example.com", "Job"}, u).OptedOut {
		t.Error("a custom kind opted out")
	}
	if got := Read(job(), &unstructured.Unstructured{Object: map[string]any{"spec": "text", "status": 3}}); got.Finished || got.Suspended || got.Stamped {
		t.Errorf("an object without sense: %+v", got)
	}
}

func TestEveryRefusalTellsItsOwner(t *testing.T) {
	t.Parallel()
	quiet := map[Reason]bool{PodEnded: true, PodGone: true, GuardsDown: true, Suspended: true, NotRead: true, NotManaged: true, OptedOut: true}
	seen := map[string]bool{}
	for _, r := range Reasons() {
		if (r.Message() == "") != quiet[r] || (r.Message() != "" && seen[r.Message()]) {
			t.Errorf("%s says %q", r, r.Message())
		}
		seen[r.Message()] = true
	}
	if len(Outcomes()) != 4 || PodKind().String() != "Pod" || job().String() != "batch/Job" {
		t.Error("the words have changed")
	}
}
