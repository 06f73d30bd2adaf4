package lifecycle

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// journal is what tasks did, in order.
type journal struct {
	mu    sync.Mutex
	lines []string
}

func (j *journal) add(s string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, s)
}

func (j *journal) sorted(from, to int) []string {
	out := slices.Clone(j.lines[from:to])
	slices.Sort(out)
	return out
}

func (j *journal) task(name string) Task {
	return Task{Name: name, Run: func(ctx context.Context) error {
		j.add("start " + name)
		<-ctx.Done()
		j.add("stop " + name)
		return nil
	}}
}

func TestTasksStopInReverseOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var j journal
		done := make(chan error, 1)
		go func() { done <- Run(ctx, logr.Discard(), j.task("a"), j.task("b"), j.task("c")) }()
		synctest.Wait()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff([]string{"start a", "start b", "start c"}, j.sorted(0, 3)); diff != "" {
			t.Errorf("started (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"stop c", "stop b", "stop a"}, j.lines[3:]); diff != "" {
			t.Errorf("stopped (-want +got):\n%s", diff)
		}
	})
}

func TestOneTaskThatEndsStopsTheOthers(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	tests := map[string]struct {
		err      error
		wantText string
	}{
		"with an error":    {broken, "bad: broken"},
		"without an error": {nil, "bad: ended although nobody asked it to"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var j journal
			bad := Task{Name: "bad", Run: func(context.Context) error { return tc.err }}
			err := Run(t.Context(), logr.Discard(), j.task("a"), bad)
			if err == nil || err.Error() != tc.wantText {
				t.Errorf("got %v, want %s", err, tc.wantText)
			}
			if diff := cmp.Diff([]string{"start a", "stop a"}, j.lines); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestDelayOutlivesItsParent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		called := false
		late, release := Delay(ctx, 10*time.Second, func() { called = true })
		defer release()
		began := time.Now()
		cancel()
		<-late.Done()
		if got := time.Since(began); got != 10*time.Second || !called {
			t.Errorf("ended after %v, called %v", got, called)
		}
	})
}

func TestDelayIsReleasedEarly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		late, release := Delay(ctx, time.Hour, func() {})
		cancel()
		synctest.Wait()
		release()
		<-late.Done()
	})
}
