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

	"github.com/go-logr/logr/funcr"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/delegation"
	"github.com/lanyard-k8s/lanyard/exchange/reconcile"
	"github.com/lanyard-k8s/lanyard/test/timing"
)

// audience is what tokens are issued for.
const audience = "nemo-platform-api"

// margin is put upon the epoch here, where one API server learns of every policy before a test goes on. TestForgedWhileEverythingIsGone
// runs with what an installation has.
const margin = 2 * time.Second

// desk is a waker that remembers.
type desk struct {
	mu     sync.Mutex
	judged map[string]bool
}

func (d *desk) Judged(row string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.judged[row] = true
}

func (d *desk) was(row string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.judged[row]
}

// rig is a world with a reconciler that runs.
type rig struct {
	*world
	t    *testing.T
	desk *desk
	stop func()
}

// running starts a reconciler on the shared store, and waits until it would confirm what is made from now on.
func (w *world) running(t *testing.T, change ...func(*reconcile.Options)) *rig {
	t.Helper()
	looked := make(chan struct{})
	once := sync.OnceFunc(func() { close(looked) })
	log := funcr.New(func(_, line string) {
		if strings.Contains(line, "policies are in order") || strings.Contains(line, `"state"="in_order"`) {
			once()
		}
	}, funcr.Options{})
	r := w.begin(t, append([]func(*reconcile.Options){func(o *reconcile.Options) { o.Log = log }}, change...)...)
	select {
	case <-looked: // before its first look, the epoch and the kinds' times are those that earlier tests have left
	case <-time.After(2 * time.Minute):
		t.Fatal("the reconciler has not found the policies in order")
	}
	r.settled()
	return r
}

// begin starts a reconciler on the shared store.
func (w *world) begin(t *testing.T, change ...func(*reconcile.Options)) *rig {
	t.Helper()
	d := &desk{judged: map[string]bool{}}
	o := reconcile.Options{
		Config: w.config(t, exchangeUser), Store: w.store, Settings: settings(), IssuedAudience: audience, Audiences: []string{audience},
		Cluster: "test", Waker: d, Every: 2 * time.Second, EpochMargin: margin,
	}
	for _, c := range change {
		c(&o)
	}
	rec, err := reconcile.New(o)
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- rec.Run(ctx) }()
	r := &rig{world: w, t: t, desk: d}
	r.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(r.stop)
	return r
}

// epoch is the stored guard epoch.
func (w *world) epoch(t *testing.T) time.Time {
	t.Helper()
	g, err := w.store.Guard(t.Context())
	must(t, err)
	return g.Epoch
}

// settled waits until the epoch and what the kinds count from have passed by a second, since creation times are cut. What is days ahead is
// of a test whose clock is.
func (r *rig) settled() {
	r.t.Helper()
	timing.Within(r.t, 30*time.Second, "the epoch has passed", func() bool {
		g, err := r.store.Guard(r.t.Context())
		must(r.t, err)
		latest := g.Epoch
		for name, seen := range g.Policies {
			since := time.Unix(seen.Generation, 0)
			if strings.HasPrefix(name, "kind/") && since.After(latest) && time.Until(since) < time.Hour {
				latest = since
			}
		}
		return !g.Epoch.IsZero() && time.Now().After(latest.Add(time.Second))
	})
}

// submitted waits for an object's submission.
func (r *rig) submitted(uid types.UID) delegation.Submission {
	r.t.Helper()
	var s delegation.Submission
	timing.Within(r.t, 2*time.Minute, "there is a submission", func() bool {
		var err error
		s, err = r.store.Submission(r.t.Context(), string(uid))
		return err == nil
	})
	return s
}

// rowName is the name of a pod's row.
func rowName(p *corev1.Pod) string {
	account := wire.Account{Namespace: p.Namespace, Name: p.Spec.ServiceAccountName}
	return delegation.PodName(audience, account.Username(), string(p.UID))
}

// row waits until a pod's row is in a state.
func (r *rig) row(p *corev1.Pod, want delegation.RowState) delegation.Standing {
	r.t.Helper()
	var s delegation.Standing
	timing.Within(r.t, 2*time.Minute, "the row of "+p.Name+" is "+string(want), func() bool {
		var err error
		s, err = r.store.Get(r.t.Context(), rowName(p))
		return err == nil && s.Row.State == want
	})
	return s
}

// unknown fails the test if there is a submission or a row.
func (r *rig) unknown(uid types.UID) {
	r.t.Helper()
	if s, err := r.store.Submission(r.t.Context(), string(uid)); !errors.Is(err, delegation.ErrNotFound) {
		r.t.Errorf("a submission: %+v, %v", s, err)
	}
}

// warned waits for an Event about an object that holds these words.
func (r *rig) warned(namespace string, uid types.UID, words ...string) {
	r.t.Helper()
	var last string
	timing.Within(r.t, 2*time.Minute, "there is an Event with "+strings.Join(words, ", "), func() bool {
		events, err := r.admin.CoreV1().Events(namespace).List(r.t.Context(), metav1.ListOptions{})
		if err != nil {
			return false
		}
		return slices.ContainsFunc(events.Items, func(e corev1.Event) bool {
			if e.InvolvedObject.UID != uid || e.ReportingController != "lanyard-exchange" {
				return false
			}
			last = e.Message
			return e.Type == corev1.EventTypeWarning && !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(e.Message, w) })
		})
	})
	r.t.Log(last)
}

// newJob is a job of one container.
func newJob(name string, change ...func(*batchv1.Job)) *batchv1.Job {
	j := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			AutomountServiceAccountToken: new(false), RestartPolicy: corev1.RestartPolicyNever,
			Containers: []corev1.Container{{Name: "main", Image: "registry.example/main:1"}},
		}}},
	}
	for _, c := range change {
		c(j)
	}
	return j
}

func newPod(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: newJob(name).Spec.Template.Spec}
}

func makeJob(t *testing.T, client kubernetes.Interface, namespace string, j *batchv1.Job) *batchv1.Job {
	t.Helper()
	j, err := client.BatchV1().Jobs(namespace).Create(t.Context(), j, metav1.CreateOptions{})
	must(t, err)
	return j
}

func makePod(t *testing.T, client kubernetes.Interface, p *corev1.Pod, namespace string) *corev1.Pod {
	t.Helper()
	p, err := client.CoreV1().Pods(namespace).Create(t.Context(), p, metav1.CreateOptions{})
	must(t, err)
	return p
}

// podOf waits for the job controller to make a job's pod.
func (r *rig) podOf(j *batchv1.Job) *corev1.Pod {
	r.t.Helper()
	var pod *corev1.Pod
	timing.Within(r.t, 30*time.Second, "there is a pod of "+j.Name, func() bool {
		list, err := r.admin.CoreV1().Pods(j.Namespace).List(r.t.Context(), metav1.ListOptions{LabelSelector: "controller-uid=" + string(j.UID)})
		if err != nil || len(list.Items) == 0 {
			return false
		}
		pod = &list.Items[0]
		return true
	})
	return pod
}

// bind puts a pod onto the node, as a scheduler does.
func (r *rig) bind(p *corev1.Pod) {
	r.t.Helper()
	must(r.t, r.admin.CoreV1().Pods(p.Namespace).Bind(r.t.Context(), &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: p.Name}, Target: corev1.ObjectReference{Kind: "Node", Name: node},
	}, metav1.CreateOptions{}))
}

// phase writes a pod's phase, as a kubelet does.
func (r *rig) phase(p *corev1.Pod, phase corev1.PodPhase) {
	r.t.Helper()
	_, err := r.admin.CoreV1().Pods(p.Namespace).Patch(r.t.Context(), p.Name, types.MergePatchType,
		[]byte(`{"status":{"phase":"`+string(phase)+`"}}`), metav1.PatchOptions{}, "status")
	must(r.t, err)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
