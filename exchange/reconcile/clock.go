package reconcile

import (
	"net/http"
	"sync"
	"time"
)

// maxSkew is how far our clock may be from the API server's (spec, section 3).
const maxSkew = 30 * time.Second

// serverClock learns the API server's time from the Date of its answers. Creation and deletion times are the API server's; a clock
// of ours that is wrong would end rows that live, or confirm what is too old.
type serverClock struct {
	now func() time.Time

	mu   sync.Mutex
	seen bool
	lead time.Duration // our time less the API server's, which is cut to whole seconds
}

// wrap has every answer of a transport looked at.
func (c *serverClock) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		answer, err := next.RoundTrip(r)
		if err == nil {
			if at, bad := http.ParseTime(answer.Header.Get("Date")); bad == nil {
				c.learn(at)
			}
		}
		return answer, err
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip makes a function a transport.
func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func (c *serverClock) learn(at time.Time) {
	lead := c.now().Sub(at)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen, c.lead = true, lead
}

// server is the API server's time, late by less than a second; ok says whether ours agrees with it and either may be relied on.
func (c *serverClock) server() (at time.Time, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now().Add(-c.lead), c.seen && c.lead.Abs() <= maxSkew
}

// skew is how far apart the clocks are, for the metric.
func (c *serverClock) skew() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lead
}
