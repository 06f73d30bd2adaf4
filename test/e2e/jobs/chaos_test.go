//go:build linux

package jobs

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/test/cluster"
	"github.com/lanyard-k8s/lanyard/test/cluster/nodes"
	"github.com/lanyard-k8s/lanyard/test/e2e/house"
)

// outage is how long a component is away, or stopped in its tracks.
const outage = 8 * time.Second

// TestPartsDieUnderLoad kills and pauses the exchange, the webhook, the API server and etcd, one after the other, while alice's job
// exchanges, a job whose submission was revoked tries to, and bob forges. Nobody repairs anything. Alice's job must get its tokens
// again each time, having been told of outages and never of a refusal; the revoked job must get none and bob nothing; and a job
// submitted afterwards must get its identity.
func TestPartsDieUnderLoad(t *testing.T) {
	h := enter(t)
	alice := h.MustClient(t, house.Alice)
	steady := loop(t, h, "steady")
	revoked := loop(t, h, "revoked")
	revoke(t, h, jobOf(revoked))
	awaitMore(t, h, revoked, 2, "refused", refused)
	since := len(identities(t, h, revoked))
	forgeries := forge(t, h)

	for name, fault := range map[string]func(t *testing.T){
		"the exchange is killed":        func(t *testing.T) { killPrograms(t, h, "exchange") },
		"the webhook is killed":         func(t *testing.T) { killPrograms(t, h, "webhook") },
		"the exchange's pod is lost":    func(t *testing.T) { losePod(t, h) },
		"the webhook is paused":         func(t *testing.T) { pausePrograms(t, h, "webhook") },
		"the exchange is paused":        func(t *testing.T) { pausePrograms(t, h, "exchange") },
		"the API server is killed":      func(t *testing.T) { away(t, h, cluster.APIServer) },
		"the API server is paused":      func(t *testing.T) { paused(t, h, cluster.APIServer) },
		"etcd is killed":                func(t *testing.T) { away(t, h, cluster.Etcd) },
		"etcd is paused":                func(t *testing.T) { paused(t, h, cluster.Etcd) },
		"the controllers are restarted": func(t *testing.T) { must(t, h.Cluster.Restart(t.Context(), cluster.ControllerManager)) },
	} {
		t.Run(name, func(t *testing.T) {
			fault(t)
			began := time.Now()
			awaitMore(t, h, steady, 3, "granted", func(i identity) bool { return granted(i) && i.Subject == house.Alice })
			t.Logf("exchanging again, as seen here, %s after the end of the fault", time.Since(began).Round(100*time.Millisecond))
			var job *batchv1.Job
			house.Eventually(t, "a job to be taken", func(ctx context.Context) error {
				// Another name each time: what timed out may have been stored.
				fresh := house.Job(fmt.Sprintf("after-%d", time.Now().UnixNano()), "job")
				var err error
				job, err = alice.BatchV1().Jobs(house.Managed).Create(ctx, fresh, metav1.CreateOptions{})
				return err
			})
			wantActing(t, run(t, h, job), house.Alice, house.Managed)
		})
	}
	forgeries.stop(t)
	for n, i := range identities(t, h, steady) {
		if refused(i) || granted(i) && i.Subject != house.Alice {
			t.Errorf("line %d of alice's job: %+v, want alice's identity or an outage", n, i)
		}
	}
	for n, i := range identities(t, h, revoked)[since:] {
		if granted(i) {
			t.Errorf("line %d of the revoked job: %+v", since+n, i)
		}
	}
}

// loop runs a job of alice's that exchanges over and over, and returns its pod once it has done so.
func loop(t *testing.T, h *house.House, name string) *corev1.Pod {
	t.Helper()
	job := house.Job(name, "job", "--mode=http", "--again=300ms", "--patience=1s")
	pod := h.PodOfJob(t, h.MustSubmit(t, h.MustClient(t, house.Alice), house.Managed, job))
	pod = h.AwaitPod(t, pod.Namespace, pod.Name, corev1.PodRunning)
	awaitMore(t, h, pod, 2, "granted", granted)
	return pod
}

// jobOf is the UID of a pod's Job.
func jobOf(pod *corev1.Pod) string { return string(pod.OwnerReferences[0].UID) }

// killPrograms ends every process of a name on the nodes at once.
func killPrograms(t *testing.T, h *house.House, name string) { signal(t, h, "-KILL", name) }

// pausePrograms stops every process of a name in its tracks for a while.
func pausePrograms(t *testing.T, h *house.House, name string) {
	signal(t, h, "-STOP", name)
	<-time.After(outage) // the fault itself, not a wait for something
	signal(t, h, "-CONT", name)
}

func signal(t *testing.T, h *house.House, kind, name string) {
	t.Helper()
	hit := 0
	for _, node := range nodes.Names() {
		if _, err := h.Cluster.InNode(t.Context(), node, "pkill", kind, "-x", name); err == nil {
			hit++
		}
	}
	if hit == 0 && kind != "-CONT" { // a paused program may have been killed meanwhile, by its probe
		t.Fatalf("no process %s on any node", name)
	}
}

// losePod removes the exchange's pod without asking it.
func losePod(t *testing.T, h *house.House) {
	t.Helper()
	pod := exchangePod(t, h)
	must(t, h.Admin.CoreV1().Pods(pod.Namespace).Delete(t.Context(), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}))
}

func away(t *testing.T, h *house.House, component cluster.Component) {
	t.Helper()
	must(t, h.Cluster.Kill(component))
	<-time.After(outage) // the fault itself
	must(t, h.Cluster.Restart(t.Context(), component))
}

func paused(t *testing.T, h *house.House, component cluster.Component) {
	t.Helper()
	must(t, h.Cluster.Pause(component))
	<-time.After(outage) // the fault itself
	must(t, h.Cluster.Resume(component))
}

// forgeries are bob's attempts to be alice.
type forgeries struct {
	end             context.CancelFunc
	done            sync.WaitGroup
	tried, answered atomic.Int64
	taken           atomic.Value
}

// forge has bob try to create work that bears alice's name, five times a second, until it is told to stop.
func forge(t *testing.T, h *house.House) *forgeries {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	f := &forgeries{end: cancel}
	t.Cleanup(cancel)
	bob := h.MustClient(t, house.Bob)
	f.done.Go(func() {
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for n := 0; ; n++ {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			pod := house.Pod(fmt.Sprintf("forged-%d", n), "job")
			pod.Annotations = map[string]string{wire.AnnotationCreatedBy: house.Alice}
			trying, stop := context.WithTimeout(ctx, 5*time.Second)
			f.tried.Add(1)
			made, err := bob.CoreV1().Pods(house.Managed).Create(trying, pod, metav1.CreateOptions{})
			stop()
			switch {
			case err == nil && made.Annotations[wire.AnnotationCreatedBy] == house.Alice:
				f.taken.Store(made.Name)
			case err == nil: // the webhook wrote over it: it is bob's
				f.answered.Add(1)
				_ = bob.CoreV1().Pods(house.Managed).Delete(ctx, made.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))})
			case answered(err):
				f.answered.Add(1)
			}
		}
	})
	return f
}

// answered says whether an error is a refusal of ours, by the webhook or by a policy. That the webhook could not be called bears its
// name too, and is nobody's answer.
func answered(err error) bool {
	return says(err, "ValidatingAdmissionPolicy 'lanyard-") || says(err, `.lanyard.dev" denied the request`)
}

// TestADeadWebhookHasNotAnswered holds what the forgeries count as an answer to what the API server says in either case.
func TestADeadWebhookHasNotAnswered(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		said string
		want bool
	}{
		"the webhook is dead": {`Internal error occurred: failed calling webhook "job.mutate.lanyard.dev": failed to call webhook: ` +
			`Post "https://lanyard-webhook.nvsentinel.svc:443/mutate?timeout=3s": dial tcp 10.202.0.7:443: connect: connection refused`, false},
		"the webhook is paused": {`Internal error occurred: failed calling webhook "job.mutate.lanyard.dev": failed to call webhook: ` +
			`Post "https://lanyard-webhook.nvsentinel.svc:443/mutate?timeout=3s": context deadline exceeded`, false},
		"the API server is away": {`Post "https://10.200.0.10:6443/api/v1/namespaces/team-a/pods": dial tcp 10.200.0.10:6443: connect: connection refused`, false},
		"the webhook refuses":    {`admission webhook "job.mutate.lanyard.dev" denied the request: metadata.annotations: may not be set`, true},
		"a policy refuses": {`pods "forged-1" is forbidden: ValidatingAdmissionPolicy 'lanyard-creator-stamp' with binding ` +
			`'lanyard-creator-stamp' denied request: the stamp is another's`, true},
		"somebody else's webhook refuses": {`admission webhook "honest.mesh.example.com" denied the request: no`, false},
	} {
		if got := answered(errors.New(tc.said)); got != tc.want {
			t.Errorf("%s: answered is %t, want %t", name, got, tc.want)
		}
	}
}

// stop ends the attempts, and wants none to have succeeded and some to have been answered.
func (f *forgeries) stop(t *testing.T) {
	t.Helper()
	f.end()
	f.done.Wait()
	if name := f.taken.Load(); name != nil {
		t.Errorf("bob's pod %v bears alice's stamp", name)
	}
	if f.answered.Load() == 0 {
		t.Errorf("of %d forgeries none was answered", f.tried.Load())
	}
	t.Logf("%d forgeries, %d of them answered by us and none taken", f.tried.Load(), f.answered.Load())
}
