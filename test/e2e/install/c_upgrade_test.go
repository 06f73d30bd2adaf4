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

// TestUpgrade upgrades from an older state of the chart, programs included, while people submit and publishers report.
func TestUpgrade(t *testing.T) {
	h := home.Enter(t)
	if installed(t, h) {
		if err := h.Uninstall(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	before, commit, why := installOlder(t, h)
	runs(t, h, before)
	l := startLoad(t, h, "upgrade")
	if err := h.Upgrade(t.Context(), house.Chart(), everything); err != nil {
		t.Fatal(err)
	}
	jobActs(t, h, "after-upgrade")
	l.more(t, 40)
	runs(t, h, h.Image)
	t.Run("and back", func(t *testing.T) { rollBack(t, h, l, before, commit) })
	l.end(t)
	t.Run("from an older chart", func(t *testing.T) {
		if why != nil {
			t.Skipf("SKIPPED: %v; the upgrade was from this chart with other values", why)
		}
		if before == h.Image {
			t.Errorf("the programs before the upgrade were %s, those of this tree", before)
		}
	})
}

// rollBack goes back to the release before the upgrade, as docs/upgrade.md says, while people submit and publishers report. That has
// a limit: a database that the newer version has migrated does not go back.
func rollBack(t *testing.T, h *house.House, l *load, before, commit string) {
	t.Helper()
	if commit != "" {
		tree, err := program.Tree()
		if err != nil {
			t.Fatal(err)
		}
		changed, err := git(t.Context(), tree, "diff", "--name-only", commit, "--", "*/migrations/*")
		if err != nil {
			t.Fatal(err)
		}
		if changed != "" {
			t.Skipf("SKIPPED: this version has migrated what commit %s has stored, so there is no way back", commit)
		}
	}
	if out, err := h.Cluster.Helm(t.Context(), "rollback", house.Release, "1", "--namespace="+house.Namespace, "--wait", "--timeout="+patience.String()); err != nil {
		t.Fatalf("helm rollback: %v: %s", err, out)
	}
	jobActs(t, h, "after-rollback")
	l.more(t, 40)
	l.exchangesMore(t, 3)
	runs(t, h, before)
}

// runs wants every pod of ours that runs to be of an image.
func runs(t *testing.T, h *house.House, image string) {
	t.Helper()
	pods, err := h.Admin.CoreV1().Pods(house.Namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/part-of=lanyard"})
	if err != nil {
		t.Fatal(err)
	}
	for _, pod := range pods.Items {
		if got := pod.Spec.Containers[0].Image; pod.DeletionTimestamp == nil && pod.Status.Phase == corev1.PodRunning && got != image {
			t.Errorf("pod %s runs %s, want %s", pod.Name, got, image)
		}
	}
}

// installOlder installs an older state and returns its image and commit. Where the project's history is there, one must do; where it is not, this
// state is installed with other values, so that every program is rolled out all the same, and why tells the reason.
func installOlder(t *testing.T, h *house.House) (image, commit string, why error) {
	t.Helper()
	image, commit, err := installOneOf(t, h)
	if errors.Is(err, errNoHistory) {
		why, image = err, h.Image
		err = h.Install(t.Context(), house.Chart(), everything, "--set=webhook.podAnnotations.e2e=before,exchange.podAnnotations.e2e=before,"+
			"connector.socket.podAnnotations.e2e=before,connector.deployment.podAnnotations.e2e=before")
	}
	if err = errors.Join(err, h.Label(t.Context())); err != nil {
		t.Fatal(err)
	}
	return image, commit, why
}

// installOneOf installs the newest older state that can be installed.
func installOneOf(t *testing.T, h *house.House) (image, commit string, err error) {
	t.Helper()
	tree, err := program.Tree()
	if err != nil {
		return "", "", err
	}
	commits, err := olderStates(t.Context(), tree)
	if err != nil {
		return "", "", err
	}
	commits, differ, err := telling(t.Context(), h, tree, t.TempDir(), everything, commits)
	if err != nil {
		return "", "", err
	}
	var faults []error
	unbuilt := 0
	for i, commit := range commits {
		o, err := checkOut(t.Context(), tree, commit, commits)
		if err == nil {
			err = o.install(t, h)
		}
		if err == nil {
			t.Logf("upgrading from commit %s; what its chart installs differs: %t", commit, i < differ)
			return o.image.Ref(), commit, nil
		}
		if errors.Is(err, program.ErrNoModules) {
			unbuilt++
		}
		t.Logf("commit %s will not do: %v", commit, err)
		faults = append(faults, fmt.Errorf("commit %s: %w", commit, err))
	}
	if unbuilt == len(commits) {
		return "", "", fmt.Errorf("%w: %w", errNoHistory, faults[0])
	}
	return "", "", errors.Join(faults...)
}

// install installs the older state. What a failed attempt has left is removed again.
func (o older) install(t *testing.T, h *house.House) error {
	t.Helper()
	if err := h.Cluster.Load(t.Context(), o.image.Path); err != nil {
		return err
	}
	image := fmt.Sprintf("\nimage: {repository: %q, tag: %q}\n", o.image.Repository, o.image.Tag)
	err := h.Install(t.Context(), o.chart, strings.TrimSpace(everything)+image)
	if err != nil {
		err = errors.Join(err, h.Uninstall(t.Context()))
	}
	return err
}
