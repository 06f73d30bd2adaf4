package reconcile

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lanyard-k8s/lanyard/delegation"
	"github.com/lanyard-k8s/lanyard/exchange/provenance"
)

// TestObservation says for everything that can have happened to the object of a submission whether a look at it counts, and when.
func TestObservation(t *testing.T) {
	t.Parallel()
	const margin, controller = 11 * time.Second, "system:serviceaccount:kube-system:cronjob-controller"
	at := func(second int) time.Time { return time.Date(2026, 1, 2, 3, 0, second, 0, time.UTC) }
	job := provenance.GroupKind{Group: "batch", Kind: "Job"}
	type scene struct {
		s   delegation.Submission
		o   provenance.Object
		now standing
		at  time.Time
	}
	tests := map[string]struct {
		alter func(*scene)
		wait  time.Duration
		count bool
	}{
		"nothing has happened":                        {func(*scene) {}, 0, false},
		"it was changed":                              {func(c *scene) { c.o.Generation = 2 }, 0, true},
		"the epoch has moved":                         {func(c *scene) { c.now.epoch = at(20) }, 0, true},
		"the epoch begins at the look":                {func(c *scene) { c.now.epoch = c.at }, 0, true},
		"the epoch begins after the look":             {func(c *scene) { c.now.epoch = c.at.Add(5 * time.Second) }, 6 * time.Second, true},
		"the epoch has moved, and it was changed":     {func(c *scene) { c.now.epoch, c.o.Generation = at(20), 2 }, 0, false},
		"its kind was listed again":                   {func(c *scene) { c.now.kinds[job] = metav1.NewTime(at(20)) }, 0, true},
		"its namespace was labelled again":            {func(c *scene) { c.now.managed["runs"] = at(20) }, 0, true},
		"it was labelled a moment ago":                {func(c *scene) { c.now.managed["runs"] = c.at.Add(-time.Second) }, margin, true},
		"its namespace is managed no more":            {func(c *scene) { delete(c.now.managed, "runs"); c.o.Generation = 2 }, 0, false},
		"it bears another's name":                     {func(c *scene) { c.o.Stamp, c.o.Generation = "mallory", 2 }, 0, false},
		"it has a parent, and was changed":            {func(c *scene) { c.s.ViaUID, c.o.Stamp, c.o.Generation = "parent", controller, 2 }, 0, true},
		"it has a parent, and the epoch has moved":    {func(c *scene) { c.s.ViaUID, c.o.Stamp, c.now.epoch = "parent", controller, at(20) }, 0, false},
		"it was confirmed before that was noted":      {func(c *scene) { c.s.Observed, c.s.ConfirmedAt = delegation.Observation{}, at(15) }, 0, true},
		"and the epoch has moved after that":          {func(c *scene) { c.s.Observed, c.s.ConfirmedAt, c.now.epoch = delegation.Observation{}, at(15), at(20) }, 0, false},
		"it has no generation, and the epoch moved":   {func(c *scene) { c.s.Observed.Generation, c.o.Generation, c.now.epoch = 0, 0, at(20) }, 0, false},
		"it has no generation, and nothing has moved": {func(c *scene) { c.s.Observed.Generation, c.o.Generation = 0, 0 }, 0, false},
	}
	r := &Reconciler{options: Options{EpochMargin: margin}, rules: provenance.Rules{Delegating: []provenance.Delegate{{Identity: controller}}}}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := scene{
				s: delegation.Submission{
					UID: "job", Submitter: "alice", State: delegation.Confirmed, ConfirmedAt: at(12), Observed: delegation.Observation{Generation: 1, Since: at(10)},
				},
				o:   provenance.Object{Reference: provenance.Reference{GroupKind: job, Namespace: "runs", UID: "job"}, Stamp: "alice", Stamped: true, Generation: 1},
				now: standing{state: InOrder, epoch: at(10), managed: map[string]time.Time{"runs": at(5)}, kinds: map[provenance.GroupKind]metav1.Time{job: metav1.NewTime(at(5))}},
				at:  at(40),
			}
			tc.alter(&c)
			seen, wait, counts := r.observation(c.s, c.o, c.at, c.now)
			if wait != tc.wait || counts != tc.count {
				t.Errorf("got %s, %t, want %s, %t", wait, counts, tc.wait, tc.count)
			}
			if got := c.s.Observe(seen); counts && !got.Observed.Equal(seen) {
				t.Errorf("it counts, and %+v is kept in place of %+v", got.Observed, seen)
			}
		})
	}
}
