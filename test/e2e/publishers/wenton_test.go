//go:build linux

package publishers

import (
	"context"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lanyard-k8s/lanyard/test/cluster"
)

// wentOn wants publishers whose token is known to have been served through an outage, as the stores tell.
func (r *rig) wentOn(t testing.TB, l *load, from, until time.Time) {
	t.Helper()
	for _, pod := range l.pods {
		during := 0
		await(t, patience, pod.Name+" was served through the outage", func() bool {
			during = 0
			for _, one := range r.rows(t, nodeOf(pod), pod.Name+"-") {
				if at := time.UnixMicro(one.Generated); at.After(from) && at.Before(until) {
					during++
				}
			}
			return during > 10
		})
		t.Logf("%s: %d events within %s", pod.Name, during, until.Sub(from).Round(time100))
	}
}

// revive starts the scheduler and the controllers again if they have ended with the API server, as the kubelet of a control plane does.
func (r *rig) revive(ctx context.Context) error {
	for _, c := range []cluster.Component{cluster.Scheduler, cluster.ControllerManager} {
		if r.Cluster.Resume(c) == nil {
			continue // it runs, and is not held up by that
		}
		if err := r.Cluster.Restart(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// gone waits until no pod of a name is there any more in the namespace of the listed publishers.
func (r *rig) gone(t testing.TB, name string) {
	t.Helper()
	await(t, patience, "pod "+name+" is gone", func() bool {
		_, err := r.admin.CoreV1().Pods(listedSpace).Get(t.Context(), name, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
}
