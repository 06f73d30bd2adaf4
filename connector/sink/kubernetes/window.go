package kubernetes

import (
	"slices"
	"time"
)

// window counts what happened within the last minute, and of which checks.
type window struct{ at []happened }

// happened is one write, of the conditions of these checks, or one Event.
type happened struct {
	at     time.Time
	checks []string
}

// take says whether one more may happen of these checks, and counts it.
func (w *window) take(now time.Time, most int, verified bool, checks ...string) bool {
	w.forget(now)
	if len(w.at) >= open(most, verified) || len(w.busy(now, most, verified, checks)) > 0 {
		return false
	}
	w.at = append(w.at, happened{now, checks})
	return true
}

// busy are those of the checks that have had half of what is open to the caller: a check that comes and goes all the time would take the rest
// from every other of the node.
func (w *window) busy(now time.Time, most int, verified bool, checks []string) []string {
	w.forget(now)
	half, busy := (open(most, verified)+1)/2, []string(nil)
	for _, check := range checks {
		had := 0
		for _, h := range w.at {
			if slices.Contains(h.checks, check) {
				had++
			}
		}
		if had >= half {
			busy = append(busy, check)
		}
	}
	return busy
}

func (w *window) forget(now time.Time) {
	for len(w.at) > 0 && now.Sub(w.at[0].at) >= time.Minute {
		w.at = w.at[1:]
	}
}

// open is what of a bound is open to a caller: the last quarter is for those that are verified, whom a flood of others must
// not silence.
func open(most int, verified bool) int {
	if verified {
		return most
	}
	return most - most/4
}
