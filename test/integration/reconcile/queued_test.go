//go:build unix

package reconcile

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/lanyard-k8s/lanyard/delegation"
	"github.com/lanyard-k8s/lanyard/exchange/reconcile"
	"github.com/lanyard-k8s/lanyard/test/timing"
)

// later is a time that runs ahead, for the reconciler and for what it hears of the API server's alike.
type later struct{ ahead atomic.Int64 }

func (l *later) by() time.Duration { return time.Duration(l.ahead.Load()) }

// wrap shifts the Date of every answer.
func (l *later) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		answer, err := next.RoundTrip(r)
		if err == nil {
			if at, bad := http.ParseTime(answer.Header.Get("Date")); bad == nil {
				answer.Header.Set("Date", at.Add(l.by()).UTC().Format(http.TimeFormat))
			}
		}
		return answer, err
	})
}

// roundTripper makes a function a transport.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// swept is a store that counts how often everything was gone through.
type swept struct {
	delegation.Store
	times atomic.Int64
}

func (s *swept) Collect(ctx context.Context, c delegation.Collection) (delegation.Collected, error) {
	s.times.Add(1)
	return s.Store.Collect(ctx, c)
}

// TestAJobThatIsQueuedForDays suspends a Job at birth and starts it three days later: its pod acts for its submitter, whose submission has
// not expired, neither under a reconciler that runs all the time nor under one that is started anew.
func TestAJobThatIsQueuedForDays(t *testing.T) {
	w := theWorld(t)
	for name, restarts := range map[string]bool{"under one reconciler": false, "with a restart": true} {
		t.Run(name, func(t *testing.T) {
			l, store := &later{}, &swept{Store: w.store}
			options := func(o *reconcile.Options) {
				o.Config.Wrap(l.wrap)
				o.Store, o.Now, o.Every = store, func() time.Time { return time.Now().Add(l.by()) }, 500*time.Millisecond
			}
			r := w.running(t, options)
			ns := w.namespace(t, true, "alice")
			alice := w.as(t, "alice")
			job := makeJob(t, alice, ns, newJob("queued", func(j *batchv1.Job) { j.Spec.Suspend = new(true) }))
			s := r.submitted(job.UID)
			for range 3 {
				l.ahead.Add(int64(24 * time.Hour))
				before := store.times.Load()
				timing.Within(t, 60*time.Second, "everything is gone through", func() bool { return store.times.Load() >= before+2 })
			}
			if restarts {
				r.stop()
				r = w.begin(t, options)
			}
			if got := r.submitted(job.UID); !got.Open() || got.Submitter != "alice" || !got.ConfirmedAt.Equal(s.ConfirmedAt) {
				t.Errorf("three days later its submission is %+v", got)
			}
			_, err := alice.BatchV1().Jobs(ns).Patch(t.Context(), job.Name, types.MergePatchType, []byte(`{"spec":{"suspend":false}}`), metav1.PatchOptions{})
			must(t, err)
			pod := r.podOf(job)
			r.bind(pod)
			got := r.row(pod, delegation.Active)
			if got.Submission.Submitter != "alice" || got.Row.CreatedAt.Before(time.Now().Add(71*time.Hour)) {
				t.Errorf("its pod's row is %+v of %+v", got.Row, got.Submission)
			}
		})
	}
}
