//go:build unix

package install

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
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
	h      *house.House
	alice  kubernetes.Interface
	stop   context.CancelFunc
	wait   sync.WaitGroup
	logs   map[string]*bytes.Buffer // by pod
	pods   map[string]string        // the namespaces of those pods
	mu     sync.Mutex
	calls  int
	faults []string
}

// startLoad starts it and returns when each part has had its first success.
func startLoad(t *testing.T, h *house.House, name string) *load {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	l := &load{h: h, alice: h.MustClient(t, house.Alice), stop: stop, logs: map[string]*bytes.Buffer{}, pods: map[string]string{}}
	t.Cleanup(stop)
	for _, node := range nodes.Names() {
		pod := house.Publisher(name+"-"+node, node, "--interval=100ms", "--store-only")
		pod.Labels = nil // it is on the list
		h.MustCreate(t, l.alice, house.Listed, pod)
		l.pods[pod.Name] = house.Listed
	}
	job := h.PodOfJob(t, h.MustSubmit(t, l.alice, house.Managed, house.Job(name, "job", "--mode=http", "--again=500ms")))
	l.pods[job.Name] = house.Managed
	for pod, namespace := range l.pods {
		h.AwaitPod(t, namespace, pod, corev1.PodRunning)
		l.follow(t, ctx, namespace, pod)
	}
	for _, call := range l.admissions() {
		house.Eventually(t, "the first "+call.name, call.do)
	}
	house.Eventually(t, "the first exchange", func(ctx context.Context) error {
		logs, err := h.Admin.CoreV1().Pods(house.Managed).GetLogs(job.Name, &corev1.PodLogOptions{}).DoRaw(ctx)
		if err == nil && !bytes.Contains(logs, []byte(`"sub":"`+house.Alice+`"`)) {
			err = fmt.Errorf("its log is %q", logs)
		}
		return err
	})
	l.wait.Go(func() { l.admit(ctx) })
	return l
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
		l.calls++
		if err != nil {
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
	l.wait.Wait()
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

func (l *load) judgeExchanges(t *testing.T, pod string) {
	t.Helper()
	var wrong []string
	all := house.Lines[identity](t, whole(l.logs[pod]), nil)
	for _, i := range all {
		if i.Subject != house.Alice {
			wrong = append(wrong, fmt.Sprintf("%+v", i))
		}
	}
	if len(all) == 0 || len(wrong) > 0 {
		t.Errorf("%d of %d exchanges gave no token for %s:\n%s", len(wrong), len(all), house.Alice, first(wrong))
	}
	t.Logf("%d exchanges", len(all))
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
	house.Eventually(t, "the store of "+node+" to have every acknowledged event", func(ctx context.Context) error {
		kept, err := storedEvents(ctx, l.h, node, t.TempDir())
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
