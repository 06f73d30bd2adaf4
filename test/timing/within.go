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
