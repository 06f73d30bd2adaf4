//go:build unix

package reconcile

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lanyard-k8s/lanyard/delegation"
	"github.com/lanyard-k8s/lanyard/exchange/reconcile"
	"github.com/lanyard-k8s/lanyard/test/timing"
)

// many is how many pods a restart has to judge, in how much time; busy is what a machine is given that has other work to do.
const (
	many    = 1000
	atMost  = 5 * time.Second
	busy    = 24 * atMost
	perJob  = 50
	patient = 5 * time.Minute
)

// count is how many rows of a state there are.
func (r *rig) count(state delegation.RowState) int {
	r.t.Helper()
	n, after := 0, ""
	for {
		rows, err := r.store.Rows(r.t.Context(), delegation.RowQuery{State: state, After: after, Limit: delegation.MaxPage})
		must(r.t, err)
		n += len(rows)
		if len(rows) < delegation.MaxPage {
			return n
		}
		after = rows[len(rows)-1].Name
	}
}

// bar is how long it may take here and now.
func bar(t *testing.T) time.Duration {
	t.Helper()
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return busy
	}
	word, _, _ := strings.Cut(string(text), " ")
	load, err := strconv.ParseFloat(word, 64)
	if err != nil || load > float64(runtime.NumCPU()) {
		t.Logf("the machine is busy (%s on %d processors): %s are allowed instead of %s", word, runtime.NumCPU(), busy, atMost)
		return busy
	}
	return atMost
}

// calmly asks seldom: reading a thousand rows takes the machine from what is measured.
func calmly(t *testing.T, what string, ok func() bool) {
	t.Helper()
	next := time.Now()
	timing.Within(t, patient, what, func() bool {
		if time.Now().Before(next) {
			return false
		}
		next = time.Now().Add(200 * time.Millisecond)
		return ok()
	})
}

// TestAThousandPodsAfterARestart makes the pods while the reconciler is down, and then starts it; and starts it again when all
// of them have rows.
func TestAThousandPodsAfterARestart(t *testing.T) {
	w := theWorld(t)
	r := w.running(t)
	ns := w.namespace(t, true, "alice")
	timing.Within(t, 30*time.Second, "what other tests have left is gone", func() bool { return r.count(delegation.Pending) == 0 })
	r.stop()
	alice := w.as(t, "alice")
	for i := range many / perJob {
		makeJob(t, alice, ns, newJob("wide-"+string(rune('a'+i)), func(j *batchv1.Job) {
			j.Spec.Parallelism, j.Spec.Completions = new(int32(perJob)), new(int32(perJob))
		}))
	}
	took := timing.Within(t, patient, "there are a thousand pods", func() bool {
		list, err := w.admin.CoreV1().Pods(ns).List(t.Context(), metav1.ListOptions{ResourceVersion: "0"})
		return err == nil && len(list.Items) >= many
	})
	t.Logf("%d pods were made in %s", many, took.Round(time.Millisecond))

	began := time.Now()
	r = w.begin(t)
	calmly(t, "all of them have rows", func() bool { return r.count(delegation.Pending) >= many })
	first := time.Since(began)
	t.Logf("%d new pods have rows after %s", many, first.Round(time.Millisecond))
	if limit := bar(t); first > limit {
		t.Errorf("%s for %d new pods, want at most %s", first, many, limit)
	}
	r.stop()

	// With rows there, converging is seen by the renewals: every row is due at once.
	began = time.Now()
	r = w.begin(t, func(o *reconcile.Options) { o.MaxAge = 72 * time.Hour })
	due := began.Add(48 * time.Hour)
	calmly(t, "all of them are renewed", func() bool {
		rows, err := r.store.Rows(t.Context(), delegation.RowQuery{State: delegation.Pending, Limit: delegation.MaxPage})
		must(t, err)
		n := 0
		for _, row := range rows {
			if row.ExpiresAt.After(due) {
				n++
			}
		}
		return n >= many
	})
	again := time.Since(began)
	t.Logf("%d known pods are renewed after %s", many, again.Round(time.Millisecond))
	if limit := bar(t); again > limit {
		t.Errorf("%s for %d known pods, want at most %s", again, many, limit)
	}
}
