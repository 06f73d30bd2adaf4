//go:build unix

package install

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lanyard-k8s/lanyard/test/cluster/program"
	"github.com/lanyard-k8s/lanyard/test/e2e/house"
)

// TestUpgrade upgrades from the state before the last change of the chart, programs included, while people submit and publishers
// report.
func TestUpgrade(t *testing.T) {
	h := home.Enter(t)
	if installed(t, h) {
		if err := h.Uninstall(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	installOlder(t, h)
	l := startLoad(t, h, "upgrade")
	if err := h.Upgrade(t.Context(), house.Chart(), everything); err != nil {
		t.Fatal(err)
	}
	jobActs(t, h, "after-upgrade")
	l.more(t, 40)
	l.end(t)
	ours := metav1.ListOptions{LabelSelector: "app.kubernetes.io/part-of=lanyard"}
	pods, err := h.Admin.CoreV1().Pods(house.Namespace).List(t.Context(), ours)
	if err != nil {
		t.Fatal(err)
	}
	for _, pod := range pods.Items {
		if got := pod.Spec.Containers[0].Image; pod.DeletionTimestamp == nil && pod.Status.Phase == corev1.PodRunning && got != h.Image {
			t.Errorf("pod %s runs %s after the upgrade, want %s", pod.Name, got, h.Image)
		}
	}
}

// installOlder installs an older state, or, where there is none, this one with other values: then every program is rolled out all
// the same.
func installOlder(t *testing.T, h *house.House) {
	t.Helper()
	tree, err := program.Tree()
	if err != nil {
		t.Fatal(err)
	}
	commits, err := olderStates(t.Context(), tree)
	for _, commit := range commits {
		var o older
		if o, err = checkOut(t.Context(), tree, commit, commits); err == nil {
			err = o.install(t, h)
		}
		if err == nil {
			t.Logf("upgrading from commit %s", commit)
			break
		}
		t.Logf("commit %s will not do: %v", commit, err)
	}
	if err != nil {
		t.Logf("UPGRADING FROM THE SAME CHART, with other values, for want of an older state: %v", err)
		if err := h.Install(t.Context(), house.Chart(), everything, "--set=webhook.podAnnotations.e2e=before,exchange.podAnnotations.e2e=before,"+
			"connector.socket.podAnnotations.e2e=before,connector.deployment.podAnnotations.e2e=before"); err != nil {
			t.Fatal(err)
		}
	}
	if err := h.Label(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// install installs the older state. What a failed attempt has left is removed again.
func (o older) install(t *testing.T, h *house.House) error {
	t.Helper()
	if err := h.Cluster.Load(t.Context(), o.image.Path); err != nil {
		return err
	}
	image := fmt.Sprintf("\nimage: {repository: %q, tag: %q}\n", o.image.Repository, o.image.Tag)
	err := h.Install(t.Context(), o.chart, strings.TrimSpace(everything)+image, "--timeout=90s")
	if err != nil {
		err = errors.Join(err, h.Uninstall(t.Context()))
	}
	return err
}
