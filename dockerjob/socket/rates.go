package socket

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// How many requests one user has: so many each second, and so many at once after a pause. Two hundred jobs that are submitted, read
// and waited for at the same moment pass; a loop without a pause does not fill the log.
const (
	perSecond = 20
	atOnce    = 512
	// usersAtMost bounds the memory. Whoever comes when so many others have just asked shares what one user has.
	usersAtMost = 4096
	// tellEvery is how often a user's refusals by a bound are written down.
	tellEvery = time.Second
)

// rates is how often users ask.
type rates struct {
	now func() time.Time

	mu     sync.Mutex
	of     map[uint32]*pace
	shared *pace
	swept  time.Time
}

// pace is one user's.
type pace struct {
	limiter *rate.Limiter
	told    time.Time // when a refusal was last written down
	unsaid  int       // how many were not since
}

func newPace() *pace { return &pace{limiter: rate.NewLimiter(perSecond, atOnce)} }

func newRates(now func() time.Time) *rates {
	return &rates{now: now, of: map[uint32]*pace{}, shared: newPace()}
}

// take says whether a user may ask now.
func (r *rates) take(uid uint32) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	return r.pace(uid, now).limiter.AllowN(now, 1)
}

// tell says whether a user's refusal by a bound is to be written down, and how many were not since the last one that was.
func (r *rates) tell(uid uint32) (unsaid int, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	p := r.pace(uid, now)
	if !p.told.IsZero() && now.Sub(p.told) < tellEvery {
		p.unsaid++
		return 0, false
	}
	unsaid = p.unsaid
	p.told, p.unsaid = now, 0
	return unsaid, true
}

// pace is a user's. Those who have not asked for so long that they may do all again are forgotten when there are many.
func (r *rates) pace(uid uint32, now time.Time) *pace {
	if p := r.of[uid]; p != nil {
		return p
	}
	if len(r.of) >= usersAtMost && now.Sub(r.swept) >= tellEvery { // not for each of them: that would cost more than it bounds
		r.swept = now
		for other, p := range r.of {
			if p.limiter.TokensAt(now) >= atOnce && now.Sub(p.told) >= tellEvery {
				delete(r.of, other)
			}
		}
	}
	if len(r.of) >= usersAtMost {
		return r.shared
	}
	p := newPace()
	r.of[uid] = p
	return p
}
