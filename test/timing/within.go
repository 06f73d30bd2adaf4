package timing

import (
	"testing"
	"time"
)

// Within asks until something is so, and returns how long that took. The test fails when it is not so within the limit, which is
// to be far more than it takes on a busy machine.
func Within(t testing.TB, limit time.Duration, what string, so func() bool) time.Duration {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	start := time.Now()
	for !so() {
		if time.Since(start) > limit {
			t.Fatalf("not within %s: %s", limit, what)
		}
		<-tick.C
	}
	return time.Since(start)
}

// Next is what comes out of a channel next: its zero value where it is closed. The test fails when nothing comes within the limit, which is to
// be far more than it takes on a busy machine. Whoever just waits for a channel is told by nobody what has failed, but by the end of the
// time for the whole package.
func Next[T any](t testing.TB, limit time.Duration, what string, from <-chan T) T {
	t.Helper()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	var got T
	select {
	case got = <-from:
	case <-timer.C:
		t.Fatalf("not within %s: %s", limit, what)
	}
	return got
}
