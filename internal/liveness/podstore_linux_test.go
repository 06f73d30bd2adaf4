package liveness

import (
	"runtime"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
)

// TestARelistOfEndedPodsCostsWhatOneOfLivingPodsDoes: jobs leave thousands of ended pods on a node, and verdicts wait for the lock while a
// relist is taken in. It is the thread's CPU time that is compared, which no other process changes.
func TestARelistOfEndedPodsCostsWhatOneOfLivingPodsDoes(t *testing.T) {
	t.Parallel()
	const pods = 20_000
	relist := func(phases ...func(*corev1.Pod)) time.Duration {
		p, clock := watched(t)
		objects := make([]any, pods)
		for i := range objects {
			objects[i] = pod("0b6a5d1e-6c2f-4d3b-9d61-"+strconv.Itoa(100_000+i), phases...)
		}
		must(t, p.watches[0].Replace(objects, ""))
		before := threadTime(t)
		must(t, p.watches[0].Replace(objects[1:], ""))
		took := threadTime(t) - before
		if got := p.State("0b6a5d1e-6c2f-4d3b-9d61-100000", clock.Now()); got != Dead {
			t.Errorf("the one that is gone is %s, want dead", got)
		}
		live, dead := p.Count()
		if live+dead != pods {
			t.Errorf("%d live and %d dead, want %d in all", live, dead, pods)
		}
		return took
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	living, ended := relist(), relist(phase(corev1.PodSucceeded))
	t.Logf("%d pods: living %s, ended %s", pods, living, ended)
	if ended > 40*living {
		t.Errorf("a relist of %d ended pods takes %s, of living ones %s", pods, ended, living)
	}
}

// threadTime is the CPU time that the thread has used.
func threadTime(t *testing.T) time.Duration {
	t.Helper()
	var ts unix.Timespec
	must(t, unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts))
	return time.Duration(ts.Nano())
}
