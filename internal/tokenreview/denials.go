package tokenreview

import (
	"sync"
	"time"
)

// An API server that has just started answers before it knows its own rules: for a tenth of a second or two it calls everything
// forbidden, to those too who may. What it holds against us is therefore believed when it has said so for a while, or has never said
// anything else; until then it is an outage, after which callers come again.
const (
	believeAfter = 30 * time.Second
	// forgetAfter is how old a denial may be to count as the beginning of the next one.
	forgetAfter = time.Minute
)

// denials remembers since when the API server has been turning us away.
type denials struct {
	mu          sync.Mutex
	good        bool // it has let us review before
	since, last time.Time
}

// over notes that the API server has let us review.
func (d *denials) over() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.good, d.since, d.last = true, time.Time{}, time.Time{}
}

// weigh returns the error of a review, as an outage if it is a denial that is not to be believed yet.
func (d *denials) weigh(e *Error, now time.Time) *Error {
	if e.Hint == "" {
		return e
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.since.IsZero() || now.Sub(d.last) > forgetAfter {
		d.since = now
	}
	d.last = now
	if !d.good || now.Sub(d.since) >= believeAfter {
		return e
	}
	return unavailable("the API server turns us away, which it did not before: " + e.Detail + " (" + e.Hint + ")")
}
