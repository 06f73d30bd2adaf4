//go:build unix

package reconcile

import (
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/delegation"
	"github.com/lanyard-k8s/lanyard/policy"
	"github.com/lanyard-k8s/lanyard/test/timing"
)

// TestWorkIsChangedWhileItIsNotGuarded: mallory changes the template of alice's suspended Job while the policy that keeps her from it is
// away, or her namespace is not managed. Once all is in order again, no pod of that Job acts for alice. Her other Jobs go on: the one that
// nobody has touched, and the one that she had changed herself before.
func TestWorkIsChangedWhileItIsNotGuarded(t *testing.T) {
	w := theWorld(t)
	away := func(t *testing.T, r *rig, _ string) {
		must(t, r.admin.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Delete(t.Context(), policy.JobTemplates, metav1.DeleteOptions{}))
	}
	back := func(t *testing.T, r *rig, _ string) { put(t, r.world, built(t, settings(), policy.JobTemplates)) }
	epoch := func(t *testing.T, r *rig, _ string) time.Time { return r.epoch(t) }
	tests := map[string]struct {
		away  bool // the reconciler is
		do    func(t *testing.T, r *rig, ns string)
		undo  func(t *testing.T, r *rig, ns string)
		since func(t *testing.T, r *rig, ns string) time.Time
	}{
		"a policy is away":                           {do: away, undo: back, since: epoch},
		"a policy is away, and so is the reconciler": {away: true, do: away, undo: back, since: epoch},
		"the namespace is not managed": {
			do: func(t *testing.T, r *rig, ns string) {
				r.label(t, ns, "null")
				timing.Within(t, time.Minute, "the reconciler has noticed", func() bool { return r.managedSince(t, ns).IsZero() })
				labelled := time.Now() // times of labels are cut to seconds
				timing.Within(t, time.Minute, "a second passes", func() bool { return time.Since(labelled) > time.Second })
			},
			undo:  func(t *testing.T, r *rig, ns string) { r.label(t, ns, `"`+wire.JobsManaged+`"`) },
			since: func(t *testing.T, r *rig, ns string) time.Time { return r.managedSince(t, ns) },
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			r := w.running(t)
			ns := w.namespace(t, true, "alice", "mallory")
			alice, mallory := w.as(t, "alice"), w.as(t, "mallory")
			victim := makeJob(t, alice, ns, newJob("victim", suspended))
			untouched := makeJob(t, alice, ns, newJob("untouched", suspended))
			own := makeJob(t, alice, ns, newJob("own", suspended))
			for _, j := range []*batchv1.Job{victim, untouched, own} {
				r.submitted(j.UID)
			}
			must(t, retemplate(t, alice, own, "alice"))
			r.seen(own, 2, time.Time{})
			before := tc.since(t, r, ns)
			if err := retemplate(t, mallory, victim, "mallory"); err == nil {
				t.Fatal("mallory changed the template under the policy's eyes")
			}

			if tc.away {
				r.stop()
			}
			defer tc.undo(t, r, ns)
			tc.do(t, r, ns)
			timing.Within(t, time.Minute, "mallory changes the template", func() bool { return retemplate(t, mallory, victim, "mallory") == nil })
			tc.undo(t, r, ns)
			if tc.away {
				r = w.begin(t)
			}
			timing.Within(t, 2*time.Minute, "it is guarded anew", func() bool { return tc.since(t, r, ns).After(before) })
			since := tc.since(t, r, ns)
			timing.Within(t, time.Minute, "and has been for a second", func() bool { return time.Now().After(since.Add(time.Second)) })
			r.seen(untouched, 1, since)
			r.seen(own, 2, since)
			if err := retemplate(t, mallory, victim, "again"); err == nil {
				t.Error("mallory changed the template once more")
			}

			for _, j := range []*batchv1.Job{victim, untouched, own} {
				_, err := alice.BatchV1().Jobs(ns).Patch(t.Context(), j.Name, types.MergePatchType, []byte(`{"spec":{"suspend":false}}`), metav1.PatchOptions{})
				must(t, err)
			}
			for _, j := range []*batchv1.Job{untouched, own} {
				pod := r.podOf(j)
				r.bind(pod)
				if got := r.row(pod, delegation.Active); got.Submission.Submitter != "alice" {
					t.Errorf("%s: its pod acts for %q", j.Name, got.Submission.Submitter)
				}
			}
			pod := r.podOf(victim)
			r.bind(pod)
			if got := r.row(pod, delegation.Revoked); got.Row.Reason != delegation.PodRefused || got.Row.SubmissionUID != "" {
				t.Errorf("the row of the changed Job's pod is %+v", got.Row)
			}
			r.warned(ns, pod.UID, "changed_unguarded", "delete the work and create it again")
		})
	}
}

// retemplate changes a Job's template.
func retemplate(t *testing.T, client kubernetes.Interface, j *batchv1.Job, by string) error {
	t.Helper()
	_, err := client.BatchV1().Jobs(j.Namespace).Patch(t.Context(), j.Name, types.MergePatchType,
		[]byte(`{"spec":{"template":{"metadata":{"annotations":{"changed":"`+by+`"}}}}}`), metav1.PatchOptions{})
	return err
}

// seen waits until a Job was noted to be of a generation, guarded since a time at least.
func (r *rig) seen(j *batchv1.Job, generation int64, since time.Time) {
	r.t.Helper()
	timing.Within(r.t, 2*time.Minute, "it is known how "+j.Name+" stands", func() bool {
		s := r.submitted(j.UID)
		return s.Observed.Generation == generation && !s.Observed.Since.Before(since)
	})
}

// label gives a namespace a value of the label that marks it managed; null takes it away.
func (r *rig) label(t *testing.T, ns, value string) {
	t.Helper()
	_, err := r.admin.CoreV1().Namespaces().Patch(t.Context(), ns, types.MergePatchType, []byte(`{"metadata":{"labels":{"`+wire.LabelJobs+`":`+value+`}}}`), metav1.PatchOptions{})
	must(t, err)
}

// managedSince is since when a namespace is managed, or zero.
func (r *rig) managedSince(t *testing.T, ns string) time.Time {
	t.Helper()
	g, err := r.store.Guard(t.Context())
	must(t, err)
	seen, managed := g.Policies["namespace/"+ns]
	if !managed {
		return time.Time{}
	}
	return time.Unix(seen.Generation, 0)
}
