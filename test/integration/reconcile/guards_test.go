//go:build unix

package reconcile

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/delegation"
	"github.com/lanyard-k8s/lanyard/exchange/reconcile"
	"github.com/lanyard-k8s/lanyard/policy"
	"github.com/lanyard-k8s/lanyard/test/timing"
)

// damage is a way to take a guard away, and what gives it back.
type damage struct {
	do   func(*testing.T, *world)
	undo func(*testing.T, *world)
}

// built is a policy as the settings make it.
func built(t *testing.T, s policy.Settings, name string) policy.Policy {
	t.Helper()
	all := policy.All(s)
	i := slices.IndexFunc(all, func(p policy.Policy) bool { return p.Policy.Name == name })
	if i < 0 {
		t.Fatalf("there is no policy %s", name)
	}
	return all[i]
}

// put writes a policy and its binding over what stands, or makes them. The API server itself writes their status meanwhile.
func put(t *testing.T, w *world, p policy.Policy) {
	t.Helper()
	ctx := context.Background() // also while the test is cleaned up
	policies, bindings := w.admin.AdmissionregistrationV1().ValidatingAdmissionPolicies(), w.admin.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings()
	must(t, retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		live, err := policies.Get(ctx, p.Policy.Name, metav1.GetOptions{})
		if err != nil {
			_, err = policies.Create(ctx, p.Policy, metav1.CreateOptions{})
			return err
		}
		live.Spec = p.Policy.Spec
		_, err = policies.Update(ctx, live, metav1.UpdateOptions{})
		return err
	}))
	must(t, retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		live, err := bindings.Get(ctx, p.Binding.Name, metav1.GetOptions{})
		if err != nil {
			_, err = bindings.Create(ctx, p.Binding, metav1.CreateOptions{})
			return err
		}
		live.Spec = p.Binding.Spec
		_, err = bindings.Update(ctx, live, metav1.UpdateOptions{})
		return err
	}))
}

// damages are a deleted, a weakened and a narrowed guard.
func damages() map[string]damage {
	restore := func(name string) func(*testing.T, *world) {
		return func(t *testing.T, w *world) { put(t, w, built(t, settings(), name)) }
	}
	narrowed := damage{func(t *testing.T, w *world) {
		p := built(t, settings(), policy.JobTemplates)
		selector := p.Binding.Spec.MatchResources.NamespaceSelector
		selector.MatchExpressions[0].Values = append(selector.MatchExpressions[0].Values, "runs")
		put(t, w, p)
	}, restore(policy.JobTemplates)}
	return map[string]damage{
		"a policy is deleted": {func(t *testing.T, w *world) {
			must(t, w.admin.AdmissionregistrationV1().ValidatingAdmissionPolicies().Delete(t.Context(), policy.CreatorStamp, metav1.DeleteOptions{}))
		}, restore(policy.CreatorStamp)},
		"a binding is deleted": {func(t *testing.T, w *world) {
			must(t, w.admin.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Delete(t.Context(), policy.JobPods, metav1.DeleteOptions{}))
		}, restore(policy.JobPods)},
		"a policy checks nothing": {func(t *testing.T, w *world) {
			p := built(t, settings(), policy.Owners)
			for i := range p.Policy.Spec.Validations {
				p.Policy.Spec.Validations[i].Expression = "true"
			}
			put(t, w, p)
		}, restore(policy.Owners)},
		"a binding does not deny": {func(t *testing.T, w *world) {
			p := built(t, settings(), policy.CreatorRequired)
			p.Binding.Spec.ValidationActions = []admissionregistrationv1.ValidationAction{admissionregistrationv1.Audit}
			put(t, w, p)
		}, restore(policy.CreatorRequired)},
		"a binding is narrowed": narrowed,
		// The second time the Event is there already, and people are told again all the same.
		"the same binding is narrowed again": narrowed,
	}
}

// TestNothingNewWhileAGuardIsDown takes a guard away under a running reconciler: work of before goes on, nothing new is confirmed, and
// what was made meanwhile is refused once the guard is back.
func TestNothingNewWhileAGuardIsDown(t *testing.T) {
	w := theWorld(t)
	for name, d := range damages() {
		t.Run(name, func(t *testing.T) {
			r := w.running(t)
			ns := w.namespace(t, true, "alice")
			alice := w.as(t, "alice")
			before := makeJob(t, alice, ns, newJob("before"))
			r.submitted(before.UID)
			running := r.podOf(before)
			r.row(running, delegation.Pending)
			epoch := r.epoch(t)

			defer d.undo(t, w)
			d.do(t, w)
			drifted := time.Now()
			meanwhile := makeJob(t, alice, ns, newJob("meanwhile"))
			pod := r.podOf(meanwhile)
			r.bind(pod)
			r.bind(running) // confirmed before: it is activated all the same
			r.row(running, delegation.Active)
			timing.Within(t, 2*time.Minute, "people are told", func() bool { return r.drifts(t, drifted) })
			r.unknown(meanwhile.UID)
			if got := r.epoch(t); !got.Equal(epoch) {
				t.Errorf("the epoch moved to %s while the guard was down", got)
			}

			d.undo(t, w)
			timing.Within(t, 2*time.Minute, "the epoch moves", func() bool { return r.epoch(t).After(epoch) })
			if got := r.epoch(t); got.Before(drifted.Add(margin - time.Second)) {
				t.Errorf("the epoch moved from %s to %s, which is no margin", epoch, got)
			}
			r.warned(ns, meanwhile.UID, "before_guards", "policies were not in force")
			r.warned(ns, pod.UID, "delete it and create it again")
			if got := r.row(pod, delegation.Revoked); got.Row.Reason != delegation.PodRefused || got.Row.SubmissionUID != "" {
				t.Errorf("the pod's row is %+v", got.Row)
			}
			r.unknown(meanwhile.UID)
			r.row(running, delegation.Active)
			r.settled()
			after := makeJob(t, alice, ns, newJob("after"))
			r.submitted(after.UID)
		})
	}
}

// drifts says whether there is a drift Event that is not older.
func (r *rig) drifts(t *testing.T, since time.Time) bool {
	events, err := r.admin.CoreV1().Events(metav1.NamespaceDefault).List(t.Context(), metav1.ListOptions{FieldSelector: "reason=PolicyDrift"})
	must(t, err)
	for _, e := range events.Items {
		if !e.LastTimestamp.Time.Before(since.Add(-time.Second)) {
			return true
		}
	}
	return false
}

// TestAGuardDownWhileTheReconcilerIs lets a policy be weakened and mended, or deleted and made again, while nobody looks.
func TestAGuardDownWhileTheReconcilerIs(t *testing.T) {
	w := theWorld(t)
	for name, d := range damages() {
		t.Run(name, func(t *testing.T) {
			r := w.running(t)
			ns := w.namespace(t, true, "alice")
			alice := w.as(t, "alice")
			before := makeJob(t, alice, ns, newJob("before"))
			r.submitted(before.UID)
			epoch := r.epoch(t)
			r.stop()
			defer d.undo(t, w) // also after a failure
			d.do(t, w)
			meanwhile := makeJob(t, alice, ns, newJob("meanwhile"))
			d.undo(t, w)

			r = w.begin(t)
			r.warned(ns, meanwhile.UID, "before_guards")
			r.unknown(meanwhile.UID)
			if got := r.epoch(t); !got.After(epoch) {
				t.Errorf("the epoch stayed at %s", got)
			}
			pod := r.podOf(before) // confirmed before, its pod unconfirmed and old
			r.bind(pod)
			if s := r.submitted(before.UID); !s.Open() {
				t.Errorf("what was confirmed before is %+v", s)
			}
		})
	}
}

// TestARestartAloneMovesNothing: the epoch stays, and what was made while the reconciler was down is confirmed.
func TestARestartAloneMovesNothing(t *testing.T) {
	w := theWorld(t)
	r := w.running(t)
	epoch := r.epoch(t)
	ns := w.namespace(t, true, "alice")
	r.stop()
	job := makeJob(t, w.as(t, "alice"), ns, newJob("meanwhile"))
	r = w.begin(t)
	r.submitted(job.UID)
	if got := r.epoch(t); !got.Equal(epoch) {
		t.Errorf("the epoch moved from %s to %s", epoch, got)
	}
}

// TestAnUpgradeOfLists changes lists as helm upgrade does, first the policies, then the exchange's own configuration; and as helm rollback
// does. Lists that change and come back under an exchange whose own never changed are another thing: for that time they may have been
// weaker, and what was made then is refused.
func TestAnUpgradeOfLists(t *testing.T) {
	w := theWorld(t)
	r := w.running(t)
	ns := w.namespace(t, true, "alice")
	epoch := r.epoch(t)
	wider := settings()
	wider.Submitters = append(wider.Submitters, "system:serviceaccount:ci:new")
	wider.TemplateEditors = []string{"system:serviceaccount:kueue-system:kueue-controller-manager"}
	w.apply(t, wider)
	t.Cleanup(func() { w.apply(t, settings()) })
	job := makeJob(t, w.as(t, "alice"), ns, newJob("waits"))
	pod := r.podOf(job)
	r.bind(pod)
	r.unknown(job.UID)
	r.stop()
	r = w.begin(t, func(o *reconcile.Options) { o.Settings = wider })
	if s := r.submitted(job.UID); s.Submitter != "alice" {
		t.Errorf("got %+v", s)
	}
	r.row(pod, delegation.Active)
	w.apply(t, settings()) // rolled back
	second := makeJob(t, w.as(t, "alice"), ns, newJob("waits-too"))
	r.stop()
	r = w.begin(t)
	r.submitted(second.UID)
	if got := r.epoch(t); !got.Equal(epoch) {
		t.Errorf("the epoch moved from %s to %s", epoch, got)
	}

	weaker := settings() // for a time, mallory may make the pods of a kind
	weaker.Kinds[1].PodCreators = []string{trainingOwner, "mallory"}
	w.apply(t, weaker)
	meanwhile := makeJob(t, w.as(t, "alice"), ns, newJob("meanwhile"))
	w.apply(t, settings())
	timing.Within(t, 30*time.Second, "the epoch moves", func() bool { return r.epoch(t).After(epoch) })
	r.warned(ns, meanwhile.UID, "before_guards")
	r.unknown(meanwhile.UID)
	if s := r.submitted(second.UID); !s.Open() {
		t.Errorf("what was confirmed before is %+v", s)
	}
}

// TestALabelOnAnOldNamespace marks a namespace managed that is full of objects: none of them is confirmed, not even those that
// were stamped by hand; what is made afterwards is.
func TestALabelOnAnOldNamespace(t *testing.T) {
	w := theWorld(t)
	r := w.running(t)
	ns := w.namespace(t, false, "alice", "bob")
	alice := w.as(t, "alice")
	plain := makeJob(t, alice, ns, newJob("plain"))
	stamped := newJob("stamped")
	stamped.Annotations = map[string]string{wire.AnnotationCreatedBy: "alice"}
	stamped = makeJob(t, alice, ns, stamped)
	timing.Within(t, 5*time.Second, "a second passes", func() bool { return time.Since(stamped.CreationTimestamp.Time) > 1500*time.Millisecond })
	_, err := w.admin.CoreV1().Namespaces().Patch(t.Context(), ns, types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"`+wire.LabelJobs+`":"`+wire.JobsManaged+`"}}}`), metav1.PatchOptions{})
	must(t, err)
	r.warned(ns, plain.UID, "before_guards")
	r.warned(ns, stamped.UID, "before_guards", "before the namespace was managed")
	var after delegation.Submission
	tries := 0
	timing.Within(t, 2*time.Minute, "a new job is confirmed", func() bool {
		tries++ // the first may be made before the API server has heard of the label, and has no stamp then
		job, err := alice.BatchV1().Jobs(ns).Create(t.Context(), newJob(fmt.Sprintf("after-%d", tries)), metav1.CreateOptions{})
		if err == nil && job.Annotations[wire.AnnotationCreatedBy] == "alice" {
			after = r.submitted(job.UID)
			return true
		}
		return false
	})
	if after.Submitter != "alice" {
		t.Errorf("got %+v", after)
	}
	r.unknown(plain.UID)
	r.unknown(stamped.UID)
}
