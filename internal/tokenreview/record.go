package tokenreview

import "time"

// Source is where an answer came from. Its text is a metric label.
type Source string

// The sources.
const (
	// FromCache: a verdict that was remembered and is fresh.
	FromCache Source = "cache"
	// FromReview: the API server said so just now, or within NegativeFor.
	FromReview Source = "review"
	// FromStale: a remembered verdict that could not be confirmed in time, on a token and a pod that still live.
	FromStale Source = "stale"
	// FromGate: a refusal that needed no review.
	FromGate Source = "gate"
)

// Sources lists every source once.
func Sources() []Source { return []Source{FromCache, FromReview, FromStale, FromGate} }

// Cause is why the API server was asked. Its text is a metric label.
type Cause string

// The causes.
const (
	// FirstUse: the token was not known.
	FirstUse Cause = "first_use"
	// Refresh: a verdict was due to be confirmed.
	Refresh Cause = "refresh"
	// Fallback: it was due early, because no watch knows the token's pod.
	Fallback Cause = "fallback"
)

// Causes lists every cause once.
func Causes() []Cause { return []Cause{FirstUse, Refresh, Fallback} }

// Recorder is told what happens. It must be quick and is called from any goroutine; an empty reason is a verdict.
type Recorder interface {
	// Answered is called once for each Review.
	Answered(Source, Reason)
	// Reviewed is called once for each request to the API server that was answered or failed, not for one that was held back.
	Reviewed(Cause, Reason, time.Duration)
}

// nobody records nothing.
type nobody struct{}

func (nobody) Answered(Source, Reason)               {}
func (nobody) Reviewed(Cause, Reason, time.Duration) {}
