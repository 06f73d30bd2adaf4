//go:build unix

package integration

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/lanyard-k8s/lanyard/api/wire"
)

// unreachable fails the test unless the API server says that it could not call this webhook.
func unreachable(t *testing.T, err error, entry string) {
	t.Helper()
	if !apierrors.IsInternalError(err) {
		t.Errorf("got %v, want an internal error", err)
		return
	}
	said(t, err.Error(), `failed calling webhook "`+entry+`"`)
}

// stopped stops the webhook until the test ends, or until what it returns is called.
func stopped(t *testing.T) (start func()) {
	t.Helper()
	if err := webhook(t).Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	down := true
	start = func() {
		if down {
			down = false
			restore(t, webhook(t).Start(context.Background()))
		}
	}
	t.Cleanup(start)
	return start
}

// paused has the webhook accept calls and answer none, until the test ends.
func paused(t *testing.T) {
	t.Helper()
	if err := webhook(t).Pause(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { restore(t, webhook(t).Resume()) })
}

// TestOutage stops the webhook. What it guards waits, and says for whom; what it does not guard goes on.
func TestOutage(t *testing.T) {
	namespace, offered := managed(t), publishing(t)
	listed := namedNamespace(t, "lanyard-outage")
	alice := editor(t, "alice", namespace)
	for _, n := range []string{offered, listed} {
		editor(t, "alice", n)
	}
	makeAccount(t, listed, "monitor")
	makeJob(t, alice, namespace, newJob("train"))
	old := podOf(t, namespace, "train")
	start := stopped(t)

	_, err := tryPod(t, alice, namespace, newPod())
	unreachable(t, err, "job.mutate.lanyard.dev")
	_, err = alice.BatchV1().Jobs(namespace).Create(t.Context(), newJob("later"), metav1.CreateOptions{})
	unreachable(t, err, "job.mutate.lanyard.dev")
	_, err = tryPod(t, alice, offered, newPod(asPublisher()))
	unreachable(t, err, "publisher.mutate.lanyard.dev")
	_, err = tryPod(t, alice, listed, newPod(runningAs("monitor")))
	unreachable(t, err, "listed.mutate.lanyard.dev")
	_, err = addDebugger(t, old, nil)
	unreachable(t, err, "job.validate.lanyard.dev")

	makePod(t, alice, offered)
	makePod(t, alice, listed)
	liveOn(t, alice, namespace, old)
	start()
	// Nobody repairs anything: what is sent next is served, and what controllers could not make is made.
	anonymous(t, podWith(t, namespace, "app=web"), "replicaset-controller")
	identified(t, makePod(t, alice, namespace), "alice")
	makeJob(t, alice, namespace, newJob("later"))
	if pod := makePod(t, alice, listed, runningAs("monitor")); pod.Labels[wire.LabelInjected] != "publisher" {
		t.Errorf("after the outage a listed publisher's pod is injected as %q", pod.Labels[wire.LabelInjected])
	}
}

// liveOn changes and ends what exists in a managed namespace while the webhook is down.
func liveOn(t *testing.T, alice *kubernetes.Clientset, namespace string, pod *corev1.Pod) {
	t.Helper()
	jobs := alice.BatchV1().Jobs(namespace)
	// The stamp's own entry for updates is Ignore: an update that leaves the stamp alone needs no webhook.
	_, err := jobs.Patch(t.Context(), "train", types.MergePatchType, []byte(`{"spec":{"parallelism":2}}`), metav1.PatchOptions{})
	accepted(t, err)
	_, err = jobs.Patch(t.Context(), "train", types.MergePatchType, stampedBy("bob"), metav1.PatchOptions{})
	refused(t, err, "lanyard-creator-stamp")
	finish(t, pod)
	accepted(t, alice.CoreV1().Pods(namespace).Delete(t.Context(), pod.Name, metav1.DeleteOptions{}))
	eventually(t, "the job controller has let go of the pod", func(ctx context.Context) (bool, error) {
		_, err := alice.CoreV1().Pods(namespace).Get(ctx, pod.Name, metav1.GetOptions{})
		return apierrors.IsNotFound(err), err
	})
	// Templates are checked early for the author's sake only; a Deployment's pods would wait.
	template, selector := workload()
	_, err = alice.AppsV1().Deployments(namespace).Create(t.Context(), deployment("web", template, selector), metav1.CreateOptions{})
	accepted(t, err)
	accepted(t, jobs.Delete(t.Context(), "train", metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)}))
}

// TestOwnAccountsDuringAnOutage proves that Lanyard's own pods can start while its webhook is down, in the namespace where a
// listed publisher's cannot.
func TestOwnAccountsDuringAnOutage(t *testing.T) {
	namespace := installation(t).Namespace()
	for _, account := range []string{"node-monitor", "lanyard-webhook", "lanyard-connector", "lanyard-connector-deployment", "lanyard-exchange"} {
		makeAccount(t, namespace, account)
	}
	create := func(edits ...edit) error {
		pod, err := tryPod(t, admin(t), namespace, newPod(edits...))
		if err == nil {
			t.Cleanup(func() {
				restore(t, admin(t).CoreV1().Pods(namespace).Delete(context.Background(), pod.Name, metav1.DeleteOptions{}))
			})
			if pod.Spec.ServiceAccountName == "node-monitor" && pod.Labels[wire.LabelInjected] != "publisher" {
				t.Errorf("a listed publisher beside Lanyard is injected as %q", pod.Labels[wire.LabelInjected])
			}
		}
		return err
	}
	accepted(t, create(runningAs("node-monitor")))
	stopped(t)
	unreachable(t, create(runningAs("node-monitor")), "listed.mutate.lanyard.dev")
	for _, account := range []string{"default", "lanyard-webhook", "lanyard-connector", "lanyard-connector-deployment", "lanyard-exchange"} {
		accepted(t, create(runningAs(account)))
		accepted(t, create(runningAs(account), asPublisher(), setting(wire.EnvPrincipal, "x")))
	}
	accepted(t, create(runningAs("lanyard-connector"), withToken(wire.DefaultPublisherAudience)))
}

// TestUnlabelledNamespaceNeverNotices goes through a pod's life where nothing of ours applies, whatever the webhook does.
func TestUnlabelledNamespaceNeverNotices(t *testing.T) {
	for name, trouble := range map[string]func(*testing.T){
		"the webhook answers":       func(*testing.T) {},
		"the webhook is stopped":    func(t *testing.T) { stopped(t) },
		"the webhook hangs":         paused,
		"the webhook is not listed": withoutWebhooks,
	} {
		t.Run(name, func(t *testing.T) {
			namespace := newNamespace(t, nil)
			alice := editor(t, "alice", namespace)
			sent := newPod(setting(wire.EnvPrincipal, "x"), withToken("vault"))
			trouble(t)
			pod, err := tryPod(t, alice, namespace, sent)
			if err != nil {
				t.Fatal(err)
			}
			got := []any{pod.Spec.Volumes[0].Projected.Sources, len(pod.Spec.Volumes), pod.Spec.Containers[0].Env, len(pod.Labels), len(pod.Annotations)}
			want := []any{sent.Spec.Volumes[0].Projected.Sources, 1, sent.Spec.Containers[0].Env, 0, 0}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("what became of it (-want +got):\n%s", diff)
			}
			metav1.SetMetaDataLabel(&pod.ObjectMeta, "team", "a")
			pods := alice.CoreV1().Pods(namespace)
			pod, err = pods.Update(t.Context(), pod, metav1.UpdateOptions{})
			accepted(t, err)
			_, err = addDebugger(t, pod, principal)
			accepted(t, err)
			err = runIn(t, alice, pod)
			if !apierrors.IsBadRequest(err) {
				t.Errorf("exec: got %v, want a bad request", err)
			}
			said(t, err.Error(), "does not have a host assigned")
			finish(t, pod)
			accepted(t, pods.Delete(t.Context(), pod.Name, metav1.DeleteOptions{}))
		})
	}
}

// runIn asks for a command to be run in a pod; there is no node that could.
func runIn(t *testing.T, client *kubernetes.Clientset, pod *corev1.Pod) error {
	t.Helper()
	return client.CoreV1().RESTClient().Post().Namespace(pod.Namespace).Resource("pods").Name(pod.Name).SubResource("exec").
		Param("command", "true").Param("stdout", "true").Do(t.Context()).Error()
}

// TestNamespaceDiesDuringAnOutage deletes a managed namespace, with a job in it, while nobody answers.
func TestNamespaceDiesDuringAnOutage(t *testing.T) {
	namespace := managed(t)
	alice := editor(t, "alice", namespace)
	makeJob(t, alice, namespace, newJob("train"))
	podOf(t, namespace, "train")
	makePod(t, alice, namespace)
	stopped(t)
	spaces := admin(t).CoreV1().Namespaces()
	accepted(t, spaces.Delete(t.Context(), namespace, metav1.DeleteOptions{}))
	eventually(t, "the namespace is gone", func(ctx context.Context) (bool, error) {
		_, err := spaces.Get(ctx, namespace, metav1.GetOptions{})
		return apierrors.IsNotFound(err), err
	})
}

// TestHangingWebhook is an outage of the slower kind: the API server waits for as long as it was told to.
func TestHangingWebhook(t *testing.T) {
	namespace := managed(t)
	alice := editor(t, "alice", namespace)
	paused(t)
	_, err := tryPod(t, alice, namespace, newPod())
	unreachable(t, err, "job.mutate.lanyard.dev")
}
