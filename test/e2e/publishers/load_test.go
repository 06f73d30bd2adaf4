//go:build linux

package publishers

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

const time100 = 100 * time.Millisecond

// load are publishers that send as fast as publishers do in a storm: fifty batches a second each.
type load struct {
	r    *rig
	pods []*corev1.Pod
	// stores are where their events are kept, nil for the store of each one's node.
	stores func(prefix string) [][]row
}

// startLoad starts two publishers on each of some nodes and waits until all are at it.
func (r *rig) startLoad(t testing.TB, name string, nodes ...string) *load {
	t.Helper()
	l := &load{r: r}
	for _, node := range nodes {
		for i := range 2 {
			pod := r.publisherPod(listedSpace, fmt.Sprintf("%s-%s-%d", name, node, i), monitor, node, "publisher", "--interval=20ms", "--check=LoadCheck", "--store-only")
			l.pods = append(l.pods, r.create(t, pod, alwaysOn))
		}
	}
	l.goesOn(t)
	return l
}

// goesOn waits until every publisher has had twenty batches more acknowledged, and returns how long the last of them took.
func (l *load) goesOn(t testing.TB) time.Duration {
	t.Helper()
	begin, before := time.Now(), make([]int, len(l.pods))
	for i, pod := range l.pods {
		before[i] = count(l.r.batches(t, pod), "acknowledged")
	}
	for i, pod := range l.pods {
		l.r.acknowledged(t, pod, before[i]+20)
	}
	return time.Since(begin)
}

// check wants nothing acknowledged to be lost and nothing to be stored twice, no batch to have been refused or given up, and returns
// the longest that one was on its way: so long was the connector out of reach of its publishers.
func (l *load) check(t testing.TB) time.Duration {
	t.Helper()
	longest := int64(0)
	for _, pod := range l.pods {
		all := l.r.everything(t, pod)
		for _, b := range all {
			if b.Outcome != "acknowledged" {
				t.Errorf("%s: batch %s: %s, %s: %s", pod.Name, b.ID, b.Outcome, b.Code, b.Message)
			}
		}
		longest = max(longest, slowest(all))
		if l.stores != nil {
			l.r.keptIn(t, pod, l.stores)
		} else {
			l.r.kept(t, pod)
		}
	}
	return time.Duration(longest) * time.Millisecond
}
