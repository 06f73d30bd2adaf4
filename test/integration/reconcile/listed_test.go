//go:build unix

package reconcile

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/delegation"
	"github.com/lanyard-k8s/lanyard/exchange/reconcile"
	"github.com/lanyard-k8s/lanyard/policy"
	"github.com/lanyard-k8s/lanyard/test/timing"
)

// unlisted are the settings without the kinds of other people's controllers.
func unlisted() policy.Settings {
	s := settings()
	s.Kinds = slices.DeleteFunc(s.Kinds, func(k policy.Kind) bool { return k.Group != "batch" })
	s.Delegating = slices.DeleteFunc(s.Delegating, func(c policy.Controller) bool { return c.Identity == setController })
	return s
}

// with begins a reconciler with other settings.
func with(s policy.Settings) func(*reconcile.Options) {
	return func(o *reconcile.Options) { o.Settings = s }
}

// apply puts all policies over what stands, as helm does.
func (w *world) apply(t *testing.T, s policy.Settings) {
	t.Helper()
	for _, p := range policy.All(s) {
		put(t, w, p)
	}
}

// lists waits until the reconciler has found the policies in order with a kind, or without it, and, with it, until what is made then
// counts.
func (r *rig) lists(kind string, want bool) {
	r.t.Helper()
	timing.Within(r.t, 60*time.Second, "the kind "+kind+" is listed or not", func() bool {
		saved, err := r.store.Guard(r.t.Context())
		must(r.t, err)
		since, listed := saved.Policies["kind/"+kind]
		return listed == want && (!listed || time.Now().After(time.Unix(since.Generation, 0)))
	})
}

// stampedFor makes an object of a kind as a user, with somebody's stamp on it.
func (w *world) stampedFor(t *testing.T, user, stamp, ns string, resource schema.GroupVersionResource, kind, name string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": resource.GroupVersion().String(), "kind": kind,
		"metadata": map[string]any{"name": name, "annotations": map[string]any{wire.AnnotationCreatedBy: stamp}},
		"spec":     map[string]any{"replicas": map[string]any{"template": map[string]any{}}},
	}}
	var made *unstructured.Unstructured
	timing.Within(t, 30*time.Second, user+" makes a "+kind, func() bool {
		var err error
		made, err = w.dynamic(t, user).Resource(resource).Namespace(ns).Create(t.Context(), o, metav1.CreateOptions{})
		return err == nil
	})
	return made
}

// TestAKindThatIsListedLater has mallory make objects with alice's stamp while nobody looks at their kinds: a job kind's and a parent's.
// The kinds are listed afterwards, which is a change of lists and moves no epoch; nothing that comes of these objects acts for alice. Work
// of the kinds that were listed all the time keeps its word.
func TestAKindThatIsListedLater(t *testing.T) {
	w := theWorld(t)
	w.define(t, pytorch, "PyTorchJob")
	w.define(t, jobset, "JobSet")
	t.Cleanup(func() {
		w.apply(t, settings())
		must(t, w.in.ApplyWebhooks(context.Background()))
	})
	w.apply(t, unlisted())
	must(t, w.in.RemoveWebhooks(t.Context())) // it would write the true name, had it these kinds
	r := w.begin(t, with(unlisted()))
	r.lists("kubeflow.org/PyTorchJob", false)
	r.settled()
	epoch := r.epoch(t)
	ns := w.namespace(t, true, "alice", "mallory", trainingOwner, setController)
	planted := w.stampedFor(t, "mallory", "alice", ns, pytorch, "PyTorchJob", "planted")
	parent := w.stampedFor(t, "mallory", "alice", ns, jobset, "JobSet", "planted")
	r.stop()
	must(t, w.in.ApplyWebhooks(t.Context()))
	w.apply(t, settings())
	before := newJob("before")
	before.Annotations = map[string]string{wire.AnnotationCreatedBy: "alice"}
	before = makeJob(t, w.as(t, "alice"), ns, before)

	r = w.begin(t)
	r.lists("kubeflow.org/PyTorchJob", true)
	pod := makePod(t, w.as(t, trainingOwner), worker(planted, "worker-0"), ns)
	r.bind(pod)
	if got := r.row(pod, delegation.Revoked); got.Row.Reason != delegation.PodRefused || got.Row.SubmissionUID != "" {
		t.Errorf("the row of the planted object's pod is %+v", got.Row)
	}
	r.warned(ns, pod.UID, "before_guards", "its kind listed")
	r.warned(ns, planted.GetUID(), "before_guards")
	r.unknown(planted.GetUID())
	child := newJob("set-workers-0")
	child.OwnerReferences = owner(parent)
	job := makeJob(t, w.as(t, setController), ns, child)
	r.warned(ns, job.UID, "before_guards")
	r.unknown(job.UID)

	if s := r.submitted(before.UID); s.Submitter != "alice" {
		t.Errorf("a Job of before: %+v", s)
	}
	after := w.custom(t, "alice", ns, pytorch, "PyTorchJob", "after")
	if s := r.submitted(after.GetUID()); s.Submitter != "alice" {
		t.Errorf("what was made afterwards: %+v", s)
	}
	if got := r.epoch(t); !got.Equal(epoch) {
		t.Errorf("the epoch moved from %s to %s", epoch, got)
	}
}

// askedFor is a store that counts how often each row was asked for, which every look at a pod begins with.
type askedFor struct {
	delegation.Store
	mu    sync.Mutex
	names map[string]int
}

func (a *askedFor) Get(ctx context.Context, name string) (delegation.Standing, error) {
	a.mu.Lock()
	a.names[name]++
	a.mu.Unlock()
	return a.Store.Get(ctx, name)
}

func (a *askedFor) times(name string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.names[name]
}

// TestAKindWhoseResourceIsMisspelt lists a kind with a resource that is not its own: the policies look elsewhere, and whoever makes an object
// of it writes any stamp. Nothing comes of it, and people are told; nor does it once the resource is put right.
func TestAKindWhoseResourceIsMisspelt(t *testing.T) {
	w := theWorld(t)
	w.define(t, pytorch, "PyTorchJob")
	t.Cleanup(func() {
		w.apply(t, settings())
		must(t, w.in.ApplyWebhooks(context.Background()))
	})
	misspelt := settings()
	misspelt.Kinds[1].Resource = "pytorchjob"
	w.apply(t, misspelt)
	must(t, w.in.RemoveWebhooks(t.Context()))
	began := time.Now()
	asked := &askedFor{Store: w.store, names: map[string]int{}}
	r := w.begin(t, with(misspelt), func(o *reconcile.Options) { o.Store = asked })
	timing.Within(t, 60*time.Second, "people are told", func() bool {
		return r.told(t, "KindNotGuarded", `kubeflow.org/PyTorchJob is not served as "pytorchjob"`, began)
	})
	r.lists("kubeflow.org/PyTorchJob", true)
	r.settled()
	ns := w.namespace(t, true, "mallory", trainingOwner)
	planted := w.stampedFor(t, "mallory", "alice", ns, pytorch, "PyTorchJob", "planted")
	must(t, w.in.ApplyWebhooks(t.Context()))
	pod := makePod(t, w.as(t, trainingOwner), worker(planted, "worker-0"), ns)
	r.bind(pod)
	job := makeJob(t, w.as(t, "mallory"), ns, newJob("later"))
	r.submitted(job.UID) // by now it confirms what it may
	seen := asked.times(rowName(pod))
	timing.Within(t, 2*time.Minute, "the pod has been looked at, and is looked at again", func() bool { return asked.times(rowName(pod)) >= seen+2 })
	if s, err := r.store.Get(t.Context(), rowName(pod)); !errors.Is(err, delegation.ErrNotFound) {
		t.Errorf("it has a row: %+v, %v", s, err)
	}
	r.unknown(planted.GetUID())
	r.stop()

	w.apply(t, settings())
	r = w.begin(t)
	if got := r.row(pod, delegation.Revoked); got.Row.Reason != delegation.PodRefused || got.Row.SubmissionUID != "" {
		t.Errorf("its row is %+v", got.Row)
	}
	r.warned(ns, pod.UID, "before_guards")
}

// told says whether there is an Event in namespace default with this reason and these words that is not older.
func (r *rig) told(t *testing.T, reason, words string, since time.Time) bool {
	t.Helper()
	events, err := r.admin.CoreV1().Events(metav1.NamespaceDefault).List(t.Context(), metav1.ListOptions{FieldSelector: "reason=" + reason})
	must(t, err)
	return slices.ContainsFunc(events.Items, func(e corev1.Event) bool {
		return strings.Contains(e.Message, words) && !e.LastTimestamp.Time.Before(since.Add(-time.Second))
	})
}

// TestWorkOfAKindThatLeavesTheList has work of alice's confirmed, and its kind taken off the list and put back. Meanwhile mallory may change
// its template; so its pods of afterwards act for nobody. Where the kind stays away, the submission is counted and ends.
func TestWorkOfAKindThatLeavesTheList(t *testing.T) {
	w := theWorld(t)
	w.define(t, pytorch, "PyTorchJob")
	r := w.running(t)
	r.lists("kubeflow.org/PyTorchJob", true)
	ns := w.namespace(t, true, "alice", "mallory", trainingOwner)
	work := w.custom(t, "alice", ns, pytorch, "PyTorchJob", "train")
	other := w.custom(t, "alice", ns, pytorch, "PyTorchJob", "other")
	r.submitted(work.GetUID())
	r.submitted(other.GetUID())
	patch := []byte(`{"spec":{"replicas":{"template":{"spec":{"containers":[{"name":"main","image":"registry.example/evil:1"}]}}}}}`)
	evil := func() error {
		_, err := w.dynamic(t, "mallory").Resource(pytorch).Namespace(ns).Patch(t.Context(), "train", types.MergePatchType, patch, metav1.PatchOptions{})
		return err
	}
	forbidden(t, "another's template, while its kind is listed", evil())
	epoch := r.epoch(t)
	r.stop()

	t.Cleanup(func() { w.apply(t, settings()) })
	w.apply(t, unlisted())
	r = w.begin(t, with(unlisted()))
	r.lists("kubeflow.org/PyTorchJob", false)
	timing.Within(t, 30*time.Second, "nothing guards the template", func() bool { return evil() == nil })
	r.stop()
	w.apply(t, settings())
	r = w.begin(t)
	r.lists("kubeflow.org/PyTorchJob", true)
	pod := makePod(t, w.as(t, trainingOwner), worker(work, "worker-0"), ns)
	r.bind(pod)
	if got := r.row(pod, delegation.Revoked); got.Row.Reason != delegation.PodRefused || got.Row.SubmissionUID != "" {
		t.Errorf("the row of its new pod is %+v", got.Row)
	}
	r.warned(ns, pod.UID, "before_guards", "its kind listed")
	if s := r.submitted(work.GetUID()); s.Submitter != "alice" || !s.Open() {
		t.Errorf("its submission is %+v", s)
	}
	if got := r.epoch(t); !got.Equal(epoch) {
		t.Errorf("the epoch moved from %s to %s", epoch, got)
	}
	r.stop()

	w.apply(t, unlisted())
	reg := prometheus.NewRegistry()
	m, err := reconcile.NewMetrics(reg)
	must(t, err)
	r = w.begin(t, with(unlisted()), func(o *reconcile.Options) { o.Metrics, o.Every, o.KindGone = m, 500*time.Millisecond, 4*time.Second })
	timing.Within(t, 30*time.Second, "they are counted", func() bool { return value(t, reg, "lanyard_exchange_orphaned_submissions") == 2 })
	r.closed(work.GetUID(), delegation.WorkGone)
	r.closed(other.GetUID(), delegation.WorkGone)
	timing.Within(t, 30*time.Second, "they are counted no more", func() bool { return value(t, reg, "lanyard_exchange_orphaned_submissions") == 0 })
}
