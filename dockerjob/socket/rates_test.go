package socket_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lanyard-k8s/lanyard/api/jobs"
	"github.com/lanyard-k8s/lanyard/dockerjob/socket"
)

// clock is set by hand.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// TestAUserWhoAsksWithoutEnd: what two hundred jobs need at once passes; then a user is told to come again, with a line in the audit log
// for each second and not for each request, and has twenty requests each second.
func TestAUserWhoAsksWithoutEnd(t *testing.T) {
	t.Parallel()
	at := &clock{at: time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)}
	d := serve(t, &fake{}, func(o *socket.Options) { o.Clock = at.now })
	c := d.client()
	ask := func(what string) (status int, retry string) {
		t.Helper()
		resp, err := c.Get("http://x/v1/jobs")
		must(t, err)
		must(t, resp.Body.Close())
		if resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusTooManyRequests {
			t.Fatalf("%s: %d", what, resp.StatusCode)
		}
		return resp.StatusCode, resp.Header.Get("Retry-After")
	}
	for n := range 512 {
		if status, _ := ask("at once"); status != http.StatusOK {
			t.Fatalf("request %d is refused", n+1)
		}
	}
	for range 50 {
		if status, retry := ask("over it"); status != http.StatusTooManyRequests || retry != "2" {
			t.Fatalf("over the bound: %d, Retry-After %q", status, retry)
		}
	}
	if _, _, f := d.ask(http.MethodGet, "/v1/jobs", ""); f.Code != jobs.TooMany || !strings.Contains(f.Message, "too many requests") {
		t.Errorf("the user is told %+v", f)
	}
	refusals := func() (n int, last string) {
		for line := range strings.Lines(d.log.String()) {
			if strings.Contains(line, `"outcome":"too_many"`) {
				n, last = n+1, line
			}
		}
		return n, last
	}
	if n, line := refusals(); n != 1 {
		t.Errorf("%d lines about 51 refusals: %s", n, line)
	}
	if n := d.count("list", "too_many"); n != 51 {
		t.Errorf("%v refusals are counted", n)
	}
	at.add(time.Second)
	for n := range 20 {
		if status, _ := ask("a second later"); status != http.StatusOK {
			t.Fatalf("request %d of the next second is refused", n+1)
		}
	}
	if status, _ := ask("over it again"); status != http.StatusTooManyRequests {
		t.Errorf("request 21 of the next second: %d", status)
	}
	if n, line := refusals(); n != 2 || !strings.Contains(line, "50 more were refused since the last such line") {
		t.Errorf("%d lines, the last is %s", n, line)
	}
	if n := strings.Count(d.log.String(), `"outcome":"done"`); n != 532 {
		t.Errorf("%d requests that were answered are in the audit log", n)
	}
}

// TestRatesAreOfEachUser: one user's haste is not another's, and as many as there may be cost no more memory than so many.
func TestRatesAreOfEachUser(t *testing.T) {
	t.Parallel()
	at := &clock{at: time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)}
	r := socket.NewRates(at.now)
	for range 600 {
		r.Take(1)
	}
	if r.Take(1) || !r.Take(2) {
		t.Error("user 1 may ask, or user 2 may not")
	}
	const users = 4096
	for uid := uint32(10_000); uid < 10_000+2*users; uid++ {
		r.Take(uid)
	}
	if n := r.Known(); n != users {
		t.Errorf("%d users are remembered", n)
	}
	if r.Take(1) {
		t.Error("user 1 was forgotten, and has everything again")
	}
	if r.Take(99_999) {
		t.Error("those who are too many to be remembered have no bound")
	}
	at.add(time.Minute)
	if !r.Take(99_999) || r.Known() > 2 {
		t.Errorf("a minute later %d users are remembered", r.Known())
	}
}
