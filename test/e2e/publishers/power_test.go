//go:build linux

package publishers

import (
	"context"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestAPowerCut cuts the power of a node under load. What was acknowledged is on its disk and comes up with it; publishers and
// connector recover by themselves.
func TestAPowerCut(t *testing.T) {
	r := enter(t)
	l := r.startLoad(t, "power", r.far)
	must(t, r.Cluster.PowerCut(r.far))
	cut := time.Now()
	select {
	case <-time.After(3 * time.Second):
	case <-t.Context().Done():
	}
	must(t, r.boot(t.Context()))
	t.Logf("booted and ready %s after the cut", time.Since(cut).Round(time100))
	r.recovered(t, l)
	t.Logf("its publishers are served again %s after the cut", time.Since(cut).Round(time100))
	for _, pod := range l.pods {
		if now := r.fresh(t, pod); now.UID != pod.UID {
			t.Errorf("%s is another pod than before the cut", pod.Name)
		}
	}
	l.check(t)
	r.nothingForged(t)
}

// boot switches the far node on again.
func (r *rig) boot(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return r.Cluster.Boot(ctx, r.far)
}

// recovered waits until every container of a load was started again and is served.
func (r *rig) recovered(t testing.TB, l *load) {
	t.Helper()
	for _, pod := range l.pods {
		await(t, patience, pod.Name+" runs again", func() bool {
			now, err := r.admin.CoreV1().Pods(pod.Namespace).Get(t.Context(), pod.Name, metav1.GetOptions{})
			return err == nil && len(now.Status.ContainerStatuses) == 1 && now.Status.ContainerStatuses[0].RestartCount > 0 && now.Status.ContainerStatuses[0].State.Running != nil
		})
		r.acknowledged(t, pod, 5)
	}
	await(t, patience, "the connector is ready", func() bool { return r.ready(t.Context(), r.far) })
}

// TestANodeMadeAnew deletes a node's object while the node is off, as who replaces a broken machine does, and switches it on under its old
// name. A token of the old machine is refused, although the API server goes on vouching for it; new pods' tokens are good.
func TestANodeMadeAnew(t *testing.T) {
	r := enter(t)
	victim := r.create(t, r.publisherPod(listedSpace, "of-the-old-machine", monitor, r.far, "publisher", "--store-only", "--interval=200ms"), alwaysOn)
	r.acknowledged(t, victim, 1)
	victim = r.fresh(t, victim)
	stolen := r.loot(t, victim, "of-the-old-machine")
	nodes := r.admin.CoreV1().Nodes()
	before, err := nodes.Get(t.Context(), r.far, metav1.GetOptions{})
	must(t, err)

	must(t, r.Cluster.PowerCut(r.far))
	must(t, nodes.Delete(t.Context(), r.far, metav1.DeleteOptions{}))
	await(t, patience, "the node is gone", func() bool {
		_, err := nodes.Get(t.Context(), r.far, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
	began := time.Now()
	must(t, r.boot(t.Context()))
	after, err := nodes.Get(t.Context(), r.far, metav1.GetOptions{})
	must(t, err)
	if after.UID == before.UID {
		t.Fatal("the node has its old UID")
	}
	await(t, patience, "the connector is ready", func() bool { return r.ready(t.Context(), r.far) })
	t.Logf("ready %s after the node was deleted", time.Since(began).Round(time100))

	thief := r.create(t, r.publisherPod(strangerSpace, "with-the-old-token", "default", r.far, "publisher", "--token-file="+lootFile, "--count=1"), stolen, asUser(42001))
	b := r.one(t, thief)
	wantRefusal(t, b, "PermissionDenied", "the token was issued before the node was created anew")
	r.refusedFor(t, r.far, "node_uid_mismatch", victim)

	r.remove(victim)
	r.gone(t, victim.Name)
	heir := r.create(t, r.publisherPod(listedSpace, victim.Name, monitor, r.far, "publisher", "--store-only", "--count=3", "--interval=100ms", "--id=of-the-new-machine"))
	for _, b := range r.ended(t, heir) {
		wantTaken(t, b)
	}
	await(t, patience, "its events are stored", func() bool { return len(r.rows(t, r.far, "of-the-new-machine-")) == 3 })
	r.nothingForged(t)
}
