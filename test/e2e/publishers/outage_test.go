//go:build linux

package publishers

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/lanyard-k8s/lanyard/connector"
	"github.com/lanyard-k8s/lanyard/test/cluster"
)

// TestTheConnectorDies kills connectors and stops them in their tracks, for a while and for good: those of the nodes and, beside them,
// the replicas of the Deployment.
func TestTheConnectorDies(t *testing.T) {
	r := enter(t)
	t.Run("beside each other", func(t *testing.T) {
		t.Run("on the nodes", func(t *testing.T) {
			t.Parallel()
			r.nodesConnectorsDie(t)
		})
		t.Run("in the Deployment", func(t *testing.T) {
			t.Parallel()
			r.replicasDie(t)
		})
	})
	r.nothingForged(t)
}

// nodesConnectorsDie kills a node's connector, and stops another in its tracks.
func (r *rig) nodesConnectorsDie(t *testing.T) {
	l := r.startLoad(t, "dying", r.near, r.far)
	t.Run("hung for good", func(t *testing.T) { // first, since it takes the longest, while the others go on
		r.signal(t, r.far, "STOP")
	})
	began := time.Now()
	t.Run("killed", func(t *testing.T) {
		r.signal(t, r.near, "KILL")
		near := l.on(r.near)
		near.goesOn(t)
		t.Logf("the longest that a batch was on its way: %s", near.check(t).Round(time100))
	})
	t.Run("stopped and let go on", func(t *testing.T) {
		r.signal(t, r.near, "STOP")
		select {
		case <-time.After(7 * time.Second): // longer than a call may take, and shorter than the kubelet's patience
		case <-t.Context().Done():
		}
		r.signal(t, r.near, "CONT")
		near := l.on(r.near)
		near.goesOn(t)
		t.Logf("the longest that a batch was on its way: %s", near.check(t).Round(time100))
	})
	t.Run("hung for good, and started again by the kubelet", func(t *testing.T) {
		far := l.on(r.far)
		far.goesOn(t)
		t.Logf("taken again %s after it was stopped; the longest that a batch was on its way: %s", time.Since(began).Round(time100), far.check(t).Round(time100))
	})
}

// on are the publishers on one node.
func (l *load) on(node string) *load {
	out := &load{r: l.r}
	for _, pod := range l.pods {
		if pod.Spec.NodeSelector[corev1.LabelHostname] == node {
			out.pods = append(out.pods, pod)
		}
	}
	return out
}

// TestTheAPIServerIsAway takes API server and etcd away, by death and by standstill, while known publishers send, a newcomer comes with a
// token that no connector has seen, and forgers try all the while.
func TestTheAPIServerIsAway(t *testing.T) {
	r := enter(t)
	l := r.startLoad(t, "outage", r.near, r.far)
	for i, tc := range []struct {
		name    string
		begin   func() error
		recover func() error
		// still says that the API server may answer reviews from what it remembers.
		still bool
	}{
		{"the API server is killed", func() error { return r.Cluster.Kill(cluster.APIServer) },
			func() error { return r.Cluster.Restart(t.Context(), cluster.APIServer) }, false},
		{"the API server stands still", func() error { return r.Cluster.Pause(cluster.APIServer) },
			func() error { return r.Cluster.Resume(cluster.APIServer) }, false},
		{"etcd is killed", func() error { return r.Cluster.Kill(cluster.Etcd) },
			func() error { return r.Cluster.Restart(t.Context(), cluster.Etcd) }, true},
		{"etcd stands still", func() error { return r.Cluster.Pause(cluster.Etcd) },
			func() error { return r.Cluster.Resume(cluster.Etcd) }, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			newcomer := r.create(t, r.publisherPod(listedSpace, fmt.Sprint("newcomer-", i), monitor, r.far, "attempt", "--wait-for="+goFile, "--interval=100ms"), waiting)
			r.awaitPhase(t, newcomer, corev1.PodRunning)
			newcomer = r.fresh(t, newcomer)
			from := time.Now()
			must(t, tc.begin())
			began := time.Now()
			r.release(t, newcomer)
			select {
			case <-time.After(6 * time.Second):
			case <-t.Context().Done():
			}
			until := time.Now()
			must(t, tc.recover())
			must(t, r.revive(t.Context()))
			t.Logf("away for %s, and %s until the API server answered", until.Sub(began).Round(time100), time.Since(until).Round(time100))
			await(t, patience, "the newcomer is taken", func() bool {
				all := r.attempts(t, newcomer)
				return len(all) > 0 && all[len(all)-1].Code == "OK"
			})
			judgeNewcomer(t, r.attempts(t, newcomer), began, until, tc.still)
			l.goesOn(t)
			r.wentOn(t, l, from, until)
		})
	}
	t.Logf("the longest that a known publisher's batch was on its way: %s", l.check(t).Round(time100))
	r.nothingForged(t)
}

// judgeNewcomer wants every answer to a genuine token to be yes or "not now", in good time, and marked as an outage.
func judgeNewcomer(t testing.TB, all []attempt, began, until time.Time, still bool) {
	t.Helper()
	outage, marked, slow, first := 0, 0, int64(0), time.Time{}
	for _, a := range all {
		at := time.UnixMilli(a.Unix)
		switch a.Code {
		case "OK":
			if first.IsZero() && at.After(until) && outage > 0 {
				first = at
			}
			if !still && at.Before(until) && at.After(began) {
				t.Errorf("call %d was accepted although nobody could review its token", a.N)
			}
		case "Unavailable", "DeadlineExceeded":
			outage, slow = outage+1, max(slow, a.Millis)
			if a.Reason == connector.OutageReason && a.Domain == connector.OutageDomain {
				marked++
			}
		default:
			t.Errorf("call %d of a genuine token was answered %s: %s, %d ms after the outage began and %d ms after its end", a.N, a.Code, a.Message,
				at.Sub(began).Milliseconds(), at.Sub(until).Milliseconds())
		}
	}
	if !still && (outage == 0 || marked == 0) {
		t.Errorf("of %d answers %d were an outage and %d of them marked so, want some of each", len(all), outage, marked)
	}
	when := "meanwhile"
	if !first.IsZero() {
		when = first.Sub(until).Round(time100).String() + " after the end of it"
	}
	t.Logf("the newcomer: %d answers, %d of them an outage (%d marked, the slowest after %d ms), taken %s", len(all), outage, marked, slow, when)
}
