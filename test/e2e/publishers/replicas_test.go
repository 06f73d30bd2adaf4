//go:build linux

package publishers

import (
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lanyard-k8s/lanyard/test/e2e/house"
)

// replicaRows are what each replica of the Deployment has stored, in a volume that lasts as long as its pod, of the events whose ids
// have a beginning.
func (r *rig) replicaRows(t testing.TB, prefix string) (all [][]row) {
	t.Helper()
	for _, pod := range r.deployed(t) {
		all = append(all, r.rowsOfReplica(t, &pod, prefix))
	}
	return all
}

func (r *rig) rowsOfReplica(t testing.TB, pod *corev1.Pod, prefix string) []row {
	t.Helper()
	path := filepath.Join(r.disk(pod.Spec.NodeName), "var/lib/kubelet/pods", string(pod.UID), "volumes/kubernetes.io~empty-dir/store/store/events.db")
	return awaitRows(t, pod.Name, path, prefix)
}

// startTLSLoad starts a publisher on each node that sends to the Deployment over TLS, and waits until both are at it.
func (r *rig) startTLSLoad(t testing.TB, name string) *load {
	t.Helper()
	l := &load{r: r, stores: func(prefix string) [][]row { return r.replicaRows(t, prefix) }}
	for _, node := range []string{r.near, r.far} {
		pod := r.plainPod(restrictedSpace, name+"-"+node, monitor, node, "publisher", overTLS, checking, "--interval=20ms", "--check=LoadCheck", "--store-only")
		l.pods = append(l.pods, r.create(t, pod, alwaysOn))
	}
	l.goesOn(t)
	return l
}

// busiest is the replica that stores the most of a load: some of its publishers are connected to it.
func (r *rig) busiest(t testing.TB, l *load) *corev1.Pod {
	t.Helper()
	stored := func(pod *corev1.Pod) (n int) {
		for _, publisher := range l.pods {
			n += len(r.rowsOfReplica(t, pod, publisher.Name+"-"))
		}
		return n
	}
	pods, before := r.deployed(t), map[string]int{}
	for _, pod := range pods {
		before[pod.Name] = stored(&pod)
	}
	l.goesOn(t)
	var most *corev1.Pod
	grown := 0
	for _, pod := range pods {
		if n := stored(&pod) - before[pod.Name]; n > grown {
			most, grown = &pod, n
		}
	}
	if most == nil {
		t.Fatalf("no replica of %d stores what is acknowledged", len(pods))
	}
	return most
}

// restartsOf is how often the container of a pod of ours was started again.
func restartsOf(pod *corev1.Pod) int32 {
	if s := pod.Status.ContainerStatuses; len(s) == 1 {
		return s[0].RestartCount
	}
	return -1
}

// startedAgain waits until the kubelet has started a replica's container again, and it is ready.
func (r *rig) startedAgain(t testing.TB, pod *corev1.Pod, before int32) {
	t.Helper()
	await(t, patience, pod.Name+" was started again and is ready", func() bool {
		now, err := r.admin.CoreV1().Pods(pod.Namespace).Get(t.Context(), pod.Name, metav1.GetOptions{})
		return err == nil && restartsOf(now) > before && house.IsReady(now)
	})
}

// replicasDie kills a replica of the Deployment and stops one in its tracks, for a while and for good, while publishers send over TLS
// and somebody forges. Nobody repairs anything. It is always the replica that is in use.
func (r *rig) replicasDie(t *testing.T) {
	l := r.startTLSLoad(t, "dying-tls")
	forger := r.create(t, r.plainPod(restrictedSpace, "forger-over-tls", monitor, r.far, append([]string{"attempt", overTLS, checking}, forgeries(r.near)...)...), alwaysOn)
	await(t, patience, "the forger is refused", func() bool {
		all := r.attempts(t, forger)
		return len(all) > 0 && all[len(all)-1].Code != "Unavailable"
	})
	t.Run("killed", func(t *testing.T) {
		victim := r.busiest(t, l)
		before := restartsOf(r.fresh(t, victim))
		r.signalPod(t, victim, "KILL")
		l.goesOn(t)
		r.startedAgain(t, victim, before)
		t.Logf("the longest that a batch was on its way: %s", l.check(t).Round(time100))
	})
	t.Run("stopped and let go on", func(t *testing.T) {
		victim := r.busiest(t, l)
		r.signalPod(t, victim, "STOP")
		select {
		case <-time.After(7 * time.Second): // longer than a call may take, and shorter than the kubelet's patience
		case <-t.Context().Done():
		}
		r.signalPod(t, victim, "CONT")
		l.goesOn(t)
		t.Logf("the longest that a batch was on its way: %s", l.check(t).Round(time100))
	})
	t.Run("hung for good", func(t *testing.T) {
		victim := r.busiest(t, l)
		before := restartsOf(r.fresh(t, victim))
		r.signalPod(t, victim, "STOP")
		began := time.Now()
		l.goesOn(t)
		t.Logf("all publishers are served again %s after it was stopped", time.Since(began).Round(time100))
		r.startedAgain(t, victim, before)
		t.Logf("started again by the kubelet %s after it was stopped; the longest that a batch was on its way: %s", time.Since(began).Round(time100), l.check(t).Round(time100))
	})
	r.alwaysRefused(t, forger)
	for _, rows := range r.replicaRows(t, forger.Name+"-") {
		if len(rows) > 0 {
			t.Errorf("a replica has stored %d events of %s", len(rows), forger.Name)
		}
	}
	for _, node := range []string{r.near, r.far} {
		if c := r.condition(t, node, forgedCheck); c != nil {
			t.Errorf("%s shows %+v", node, c)
		}
	}
}
