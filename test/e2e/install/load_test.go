//go:build unix

package install

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/test/cluster/nodes"
	"github.com/lanyard-k8s/lanyard/test/e2e/house"
)

// load is what goes on while the installation changes: people create pods and jobs (by dry run), publishers report on each node, and
// a job exchanges its token over and over.
type load struct {
	h     *house.House
	alice kubernetes.Interface
	stop  context.CancelFunc
	wait  sync.WaitGroup
	logs  map[string]*bytes.Buffer // by pod
	pods  map[string]string        // the namespaces of those pods
	jobs  map[string]string        // whom those of them act for that exchange
	// stored are the events in the store that those of a node end in.
	stored func(ctx context.Context, node, scratch string) (map[string]int, error)
	mu     sync.Mutex
	calls  int
	row    int // calls since the last that has failed
	faults []string
}

// startLoad starts it and returns when each part has had its first success.
func startLoad(t *testing.T, h *house.House, name string) *load {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	l := &load{h: h, alice: h.MustClient(t, house.Alice), stop: stop, logs: map[string]*bytes.Buffer{}, pods: map[string]string{}, jobs: map[string]string{}}
	t.Cleanup(stop)
	l.stored = func(ctx context.Context, node, scratch string) (map[string]int, error) {
		return storedEvents(ctx, h, node, scratch)
	}
	for _, node := range nodes.Names() {
		pod := house.Publisher(name+"-"+node, node, "--interval=100ms", "--store-only")
		pod.Labels = nil // it is on the list
		h.MustCreate(t, l.alice, house.Listed, pod)
		l.pods[pod.Name] = house.Listed
	}
	for pod, namespace := range l.pods {
		h.AwaitPod(t, namespace, pod, corev1.PodRunning)
		l.follow(t, ctx, namespace, pod)
	}
	l.loop(t, house.Alice, name)
	for _, call := range l.admissions() {
		house.Eventually(t, "the first "+call.name, call.do)
	}
	l.wait.Go(func() { l.admit(ctx) })
	return l
}

// loop has a job of somebody's exchange over and over, and returns when it has had its first token.
func (l *load) loop(t *testing.T, user, name string) {
	t.Helper()
	job := house.Job(name, "job", "--mode=http", "--again=500ms")
	pod := l.h.PodOfJob(t, l.h.MustSubmit(t, l.h.MustClient(t, user), house.Managed, job))
	l.h.AwaitPod(t, house.Managed, pod.Name, corev1.PodRunning)
	l.pods[pod.Name], l.jobs[pod.Name] = house.Managed, user
	l.follow(t, t.Context(), house.Managed, pod.Name)
	l.exchangesMore(t, 1)
}

// exchangesMore waits until every job has had n tokens more for the one whom it acts for.
func (l *load) exchangesMore(t *testing.T, n int) {
	t.Helper()
	for pod, user := range l.jobs {
		before := -1
		house.Eventually(t, fmt.Sprintf("%d exchanges more of %s", n, pod), func(ctx context.Context) error {
			logs, err := l.h.Admin.CoreV1().Pods(house.Managed).GetLogs(pod, &corev1.PodLogOptions{}).DoRaw(ctx)
			if err != nil {
				return err
			}
			now := bytes.Count(logs, []byte(`"sub":"`+user+`"`))
			if before < 0 {
				before = now
			}
			if now < before+n {
				return fmt.Errorf("there were %d; its log is %q", now-before, logs[max(0, len(logs)-1000):])
			}
			return nil
		})
	}
}

// acknowledged is how many batches the publishers have had acknowledged so far.
func (l *load) acknowledged(t *testing.T) (n int) {
	t.Helper()
	for pod, namespace := range l.pods {
		if l.jobs[pod] == "" {
			n += strings.Count(l.h.Log(t, namespace, pod), `"outcome":"acknowledged"`)
		}
	}
	return n
}

// follow keeps everything that a pod writes.
func (l *load) follow(t *testing.T, ctx context.Context, namespace, pod string) {
	t.Helper()
	stream, err := l.h.Admin.CoreV1().Pods(namespace).GetLogs(pod, &corev1.PodLogOptions{Follow: true}).Stream(context.WithoutCancel(ctx))
	if err != nil {
		t.Fatalf("following pod %s: %v", pod, err)
	}
	kept := &bytes.Buffer{}
	l.logs[pod] = kept
	l.wait.Go(func() {
		_, _ = io.Copy(kept, stream) // it ends when the pod is deleted
		_ = stream.Close()
	})
}

// admission is one kind of call.
type admission struct {
	name string
	do   func(ctx context.Context) error
}

// admissions are the calls that go through the webhook: each must succeed, and bear the mark that says that it was answered.
func (l *load) admissions() []admission {
	dryRun := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	pod := func(namespace, account, role, want string) func(ctx context.Context) error {
		return func(ctx context.Context) error {
			p := house.Pod("load", "sleep")
			p.Spec.ServiceAccountName = account
			if role != "" {
				p.Labels = map[string]string{wire.LabelRole: role}
			}
			made, err := l.alice.CoreV1().Pods(namespace).Create(ctx, p, dryRun)
			if err == nil && made.Labels[wire.LabelInjected] != want {
				err = fmt.Errorf("it was injected %q, want %q", made.Labels[wire.LabelInjected], want)
			}
			return err
		}
	}
	return []admission{
		{"pod of a job", pod(house.Managed, "", "", "job")},
		{"pod of a publisher", pod(house.Publishing, house.Monitor, wire.RolePublisher, "publisher")},
		{"pod of a listed publisher", pod(house.Listed, house.Monitor, "", "publisher")},
		{"job", func(ctx context.Context) error {
			made, err := l.alice.BatchV1().Jobs(house.Managed).Create(ctx, house.Job("load", "sleep"), dryRun)
			if err == nil && made.Annotations[wire.AnnotationCreatedBy] != house.Alice {
				err = fmt.Errorf("it was stamped %q", made.Annotations[wire.AnnotationCreatedBy])
			}
			return err
		}},
	}
}

// admit calls one after the other until the load stops, and notes every call that fails.
func (l *load) admit(ctx context.Context) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for n := 0; ; n++ {
		call := l.admissions()[n%len(l.admissions())]
		began := time.Now()
		err := call.do(ctx)
		if ctx.Err() != nil {
			return
		}
		l.mu.Lock()
		l.calls, l.row = l.calls+1, l.row+1
		if err != nil {
			l.row = 0
			l.faults = append(l.faults, fmt.Sprintf("%s: %s, after %s: %v", began.Format(time.TimeOnly), call.name, time.Since(began).Round(time.Millisecond), err))
		}
		l.mu.Unlock()
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// soFar is how many calls of admission there were.
func (l *load) soFar() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.calls
}

// inARow is how many calls of admission have succeeded since the last that has failed.
func (l *load) inARow() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.row
}

// more waits until there were n calls more: what has just changed has then been called.
func (l *load) more(t *testing.T, n int) {
	t.Helper()
	until := l.soFar() + n
	house.Eventually(t, fmt.Sprintf("%d calls more", n), func(context.Context) error {
		if have := l.soFar(); have < until {
			return fmt.Errorf("there were %d of %d", have, until)
		}
		return nil
	})
}

// batch is what program workload prints of a batch.
type batch struct {
	ID      string `json:"id"`
	Outcome string `json:"outcome"`
	Code    string `json:"code"`
	Message string `json:"message"`
}

// end ends the load and judges it: no call of admission has failed, no batch was refused, every acknowledged event is in the store
// of its node, and no exchange has ended without a token.
func (l *load) end(t *testing.T) {
	t.Helper()
	l.stop()
	grace := metav1.DeleteOptions{GracePeriodSeconds: new(int64(5)), PropagationPolicy: new(metav1.DeletePropagationBackground)}
	for pod, namespace := range l.pods {
		if err := l.h.Admin.CoreV1().Pods(namespace).Delete(t.Context(), pod, grace); err != nil {
			t.Errorf("deleting pod %s: %v", pod, err)
		}
	}
	l.over(t)
	if l.calls == 0 || len(l.faults) > 0 {
		t.Errorf("%d of %d calls of admission have failed:\n%s", len(l.faults), l.calls, first(l.faults))
	}
	t.Logf("%d calls of admission", l.calls)
	for pod, namespace := range l.pods {
		if namespace == house.Managed {
			l.judgeExchanges(t, pod)
		} else {
			l.judgeEvents(t, pod)
		}
	}
}

// over waits until the last call has been answered and every log has come to its end.
func (l *load) over(t *testing.T) {
	t.Helper()
	ended := make(chan struct{})
	go func() {
		l.wait.Wait()
		close(ended)
	}()
	house.Eventually(t, "the last call and the logs of the load's pods to end", func(context.Context) error {
		select {
		case <-ended:
			return nil
		default:
			return errors.New("they go on")
		}
	})
}

func (l *load) judgeExchanges(t *testing.T, pod string) {
	t.Helper()
	var wrong []string
	all := house.Lines[identity](t, whole(l.logs[pod]), nil)
	for _, i := range all {
		if i.Subject != l.jobs[pod] {
			wrong = append(wrong, fmt.Sprintf("%+v", i))
		}
	}
	if len(all) == 0 || len(wrong) > 0 {
		t.Errorf("%d of %d exchanges gave no token for %s:\n%s", len(wrong), len(all), l.jobs[pod], first(wrong))
	}
	t.Logf("%d exchanges for %s", len(all), l.jobs[pod])
}

func (l *load) judgeEvents(t *testing.T, pod string) {
	t.Helper()
	node := pod[len(pod)-len("node1"):]
	var wrong, acknowledged []string
	for _, b := range house.Lines[batch](t, whole(l.logs[pod]), func(b batch) bool { return b.ID != "" }) {
		if b.Outcome == "acknowledged" {
			acknowledged = append(acknowledged, b.ID)
		} else {
			wrong = append(wrong, fmt.Sprintf("%+v", b))
		}
	}
	if len(acknowledged) == 0 || len(wrong) > 0 {
		t.Errorf("%s: %d batches were acknowledged, %d were not:\n%s", pod, len(acknowledged), len(wrong), first(wrong))
	}
	scratch := t.TempDir()
	house.Eventually(t, "the store of "+node+" to have every acknowledged event", func(ctx context.Context) error {
		kept, err := l.stored(ctx, node, scratch)
		if err != nil {
			return err
		}
		lost := slices.DeleteFunc(slices.Clone(acknowledged), func(id string) bool { return kept[id] > 0 })
		if len(lost) > 0 {
			return fmt.Errorf("%d of %d are not there, such as %s", len(lost), len(acknowledged), lost[0])
		}
		return nil
	})
	t.Logf("%s: %d batches acknowledged and stored", pod, len(acknowledged))
}

// whole are the lines that have come to their end: a pod that is killed may leave half a line.
func whole(b *bytes.Buffer) string {
	text := b.Bytes()
	return string(text[:bytes.LastIndexByte(text, '\n')+1])
}

// first are the first few of a list of faults.
func first(faults []string) string {
	var errs []error
	for i, f := range faults {
		if i == 5 {
			errs = append(errs, fmt.Errorf("and %d more", len(faults)-5))
			break
		}
		errs = append(errs, errors.New(f))
	}
	if len(errs) == 0 {
		return ""
	}
	return errors.Join(errs...).Error()
}
