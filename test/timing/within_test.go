package timing_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/lanyard-k8s/lanyard/test/timing"
)

func TestWithinWaitsUntilItIsSo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		took := timing.Within(t, time.Hour, "a minute passes", func() bool { return time.Since(begin) >= time.Minute })
		if took < time.Minute || took > time.Minute+time.Second {
			t.Errorf("took %s, want a minute", took)
		}
	})
}

// stopped takes the end of the test.
type stopped struct {
	testing.TB
}

func (stopped) Helper() {}

func (stopped) Fatalf(string, ...any) { panic("stopped") }

func TestWithinGivesUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		defer func() {
			if got := recover(); got != "stopped" || time.Since(begin) < time.Minute || time.Since(begin) > time.Minute+time.Second {
				t.Errorf("%v after %s, want the end of the test after a minute", got, time.Since(begin))
			}
		}()
		timing.Within(stopped{t}, time.Minute, "never", func() bool { return false })
	})
}

func TestNextIsWhatComes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		from := make(chan int)
		go func() {
			<-time.After(time.Minute)
			from <- 7
			close(from)
		}()
		if got := timing.Next(t, time.Hour, "a number", from); got != 7 {
			t.Errorf("got %d, want 7", got)
		}
		if got := timing.Next(t, time.Hour, "the end", from); got != 0 {
			t.Errorf("got %d of a channel that is closed", got)
		}
	})
}

func TestNextGivesUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		defer func() {
			if got := recover(); got != "stopped" || time.Since(begin) != time.Minute {
				t.Errorf("%v after %s, want the end of the test after a minute", got, time.Since(begin))
			}
		}()
		timing.Next(stopped{t}, time.Minute, "never", make(chan int))
	})
}
