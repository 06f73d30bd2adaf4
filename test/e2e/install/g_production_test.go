//go:build unix

package install

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lanyard-k8s/lanyard/test/e2e/house"
)

// forwarding is the profile that docs/operations.md recommends for production, to the word: the nodes' connectors hand events to the
// Deployment, which writes the conditions, and have no power over nodes.
const forwarding = `
connector:
  socket:
    sinks: {kubernetes: {enabled: false}, forward: {enabled: true}}
  deployment: {enabled: true, publishers: []}
`

// The accounts of the two connectors.
const (
	ofTheNodes      = "system:serviceaccount:" + house.Namespace + ":lanyard-connector"
	ofTheDeployment = ofTheNodes + "-deployment"
)

// TestProduction installs the profile that is recommended for production, on a cluster where nothing is left of what was there before,
// with three exchanges on PostgreSQL where that is to be had.
func TestProduction(t *testing.T) {
	h := home.Enter(t)
	forgetEverything(t, h)
	values, stays, noDatabase := forwarding, []string{"secrets nvsentinel/lanyard-exchange-keys"}, database(t, h)
	if noDatabase == nil {
		values += severalExchanges
	} else if err := h.MakeVolume(t.Context()); err != nil {
		t.Fatal(err)
	} else {
		stays = append([]string{"persistentvolumeclaims nvsentinel/lanyard-exchange-store"}, stays...)
	}
	began := time.Now()
	mustInstall(t, h, values)
	allReady(t, h)
	t.Run("an event of a node's socket is the Deployment's to write", func(t *testing.T) { handsOn(t, h, began) })
	l := startLoad(t, h, "production")
	l.loop(t, house.Bob, "production-of-bob")
	l.stored = func(ctx context.Context, _, scratch string) (map[string]int, error) { return handedOn(ctx, h, scratch) }
	t.Run("the Deployment is killed under load", func(t *testing.T) { killDeployment(t, h, l) })
	t.Run("several exchanges", func(t *testing.T) {
		if noDatabase != nil {
			t.Skipf("SKIPPED: %v", noDatabase)
		}
		exchangesTogether(t, h, l)
	})
	l.end(t)
	t.Run("nothing is left", func(t *testing.T) {
		if err := h.Uninstall(t.Context()); err != nil {
			t.Fatal(err)
		}
		left(t, h, stays)
	})
}

// forgetEverything removes the release, if it is there, and what an uninstall has left of it, as docs/upgrade.md says.
func forgetEverything(t *testing.T, h *house.House) {
	t.Helper()
	if installed(t, h) {
		if err := h.Uninstall(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	out, err := h.Cluster.Kubectl(t.Context(), "-n", house.Namespace, "delete", "--ignore-not-found", "pvc/lanyard-exchange-store", "secret/lanyard-exchange-keys")
	if err != nil {
		t.Fatalf("removing what was kept: %v: %s", err, out)
	}
}

// handsOn publishes a fatal event to the socket of each node. It ends in the Deployment's store and as a condition of its node, which
// the Deployment has written: the nodes' connectors may not, and have not.
func handsOn(t *testing.T, h *house.House, since time.Time) {
	t.Helper()
	for account, want := range map[string]bool{ofTheNodes: false, ofTheDeployment: true} {
		review, err := h.Admin.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), &authorizationv1.SubjectAccessReview{
			Spec: authorizationv1.SubjectAccessReviewSpec{User: account, Groups: []string{"system:serviceaccounts", "system:authenticated"},
				ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "patch", Resource: "nodes", Subresource: "status", Name: "node1"}},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if review.Status.Allowed != want {
			t.Errorf("%s may change nodes: %t, want %t", account, review.Status.Allowed, want)
		}
	}
	alice, scratch := h.MustClient(t, house.Alice), t.TempDir()
	for _, node := range []string{"node1", "node2"} {
		pod := h.MustCreate(t, alice, house.Publishing, house.Publisher("handed-on-"+node, node, "--check=HandedOn", "--fatal", "--count=1"))
		h.AwaitPod(t, house.Publishing, pod.Name, corev1.PodSucceeded)
		house.Eventually(t, "the Deployment to have stored the event of "+node, func(ctx context.Context) error {
			kept, err := handedOn(ctx, h, scratch)
			if err == nil && kept[pod.Name+"-1"] == 0 {
				err = fmt.Errorf("of %d events it is none", len(kept))
			}
			return err
		})
		house.Eventually(t, node+" to show the condition", func(ctx context.Context) error {
			n, err := h.Admin.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
			if err != nil {
				return err
			}
			for _, c := range n.Status.Conditions {
				if c.Type == "HandedOn" && c.Status == corev1.ConditionTrue {
					return nil
				}
			}
			return errors.New("it does not")
		})
	}
	events, err := h.Cluster.AuditEvents()
	if err != nil {
		t.Fatal(err)
	}
	wrote := map[string]int{}
	for _, e := range events {
		if e.RequestReceivedTimestamp.After(since) && e.ObjectRef.Resource == "nodes" && e.ObjectRef.Subresource == "status" {
			wrote[e.User.Username]++
		}
	}
	if wrote[ofTheDeployment] == 0 || wrote[ofTheNodes] > 0 {
		t.Errorf("who has changed nodes, or tried to: %v, want %s and not %s", wrote, ofTheDeployment, ofTheNodes)
	}
}

// killDeployment stops every replica of the Deployment in its tracks and kills it then, while publishers report to the sockets. The nodes'
// connectors go on acknowledging without it; what they have acknowledged is delivered when the replicas are back, which needs nobody.
// The end of the load looks for it. On a busy machine the kubelet, which restarts what does not answer, may be faster than the test: the
// program that was stopped is then no longer there to be killed, and what the store holds says nothing of the time that it stood still.
func killDeployment(t *testing.T, h *house.House, l *load) {
	t.Helper()
	victims, err := h.Admin.CoreV1().Pods(house.Namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/component=connector-deployment"})
	if err != nil || len(victims.Items) != 2 {
		t.Fatalf("%d replicas, want 2: %v", len(victims.Items), err)
	}
	for _, pod := range victims.Items {
		if err := signal(t.Context(), h, &pod, "SIGSTOP"); err != nil {
			t.Fatal(err)
		}
	}
	stored, err := handedOn(t.Context(), h, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	before := l.acknowledged(t)
	house.Eventually(t, "events to be acknowledged meanwhile", func(context.Context) error { return atLeast(l.acknowledged(t)-before, 20) })
	now, err := handedOn(t.Context(), h, t.TempDir())
	stood := true // only what has not ended since can be killed
	for _, pod := range victims.Items {
		if gone := signal(t.Context(), h, &pod, "SIGKILL"); gone != nil {
			stood = false
			t.Logf("NOT COMPARED, and %s not killed by the test: the kubelet was faster: %v", pod.Name, gone)
		}
	}
	if stood && (err != nil || len(now) != len(stored)) {
		t.Errorf("the Deployment has stored %d events while it stood still (%v), so it did not", len(now)-len(stored), err)
	}
	began := time.Now()
	for _, pod := range victims.Items {
		before := pod.Status.ContainerStatuses[0].RestartCount
		house.Eventually(t, pod.Name+" to be started again", func(ctx context.Context) error {
			now, err := h.Admin.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
			if err == nil && (now.Status.ContainerStatuses[0].RestartCount <= before || !house.IsReady(now)) {
				err = fmt.Errorf("restarts: %d, of %d before, ready: %t", now.Status.ContainerStatuses[0].RestartCount, before, house.IsReady(now))
			}
			return err
		})
	}
	t.Logf("both replicas were ready again %s after they were killed", time.Since(began).Round(100*time.Millisecond))
	l.more(t, 40)
}

// signal sends a signal to the program of a pod of ours, as the pod was when it was read.
func signal(ctx context.Context, h *house.House, pod *corev1.Pod, name string) error {
	_, id, _ := strings.Cut(pod.Status.ContainerStatuses[0].ContainerID, "://")
	if out, err := h.Cluster.InNode(ctx, pod.Spec.NodeName, "ctr", "--namespace=k8s.io", "tasks", "kill", "--signal="+name, id); err != nil {
		return fmt.Errorf("sending %s to the program of %s: %w: %s", name, pod.Name, err, out)
	}
	return nil
}
