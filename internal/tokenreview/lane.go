package tokenreview

import (
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

// reservedShare is the part of the reviews that is kept for pods that run: one in so many.
const reservedShare = 4

// Of the reserved reviews one pod has podBurst at once, and then one every podEvery: its token is new every few minutes. Whoever knows a
// pod's UID takes that pod's share and no other's.
const (
	podBurst = 4
	podEvery = 5 * time.Second
	mostPods = 16 << 10
)

// lane is a rate, a number of reviews at once, and of tokens that wait for them.
type lane struct {
	rate    *rate.Limiter
	slots   chan struct{}
	most    int64
	waiting atomic.Int64
}

func newLane(qps float64, burst, slots, waiting int) lane {
	return lane{rate: rate.NewLimiter(rate.Limit(qps), burst), slots: make(chan struct{}, slots), most: int64(waiting)}
}

// free says whether nobody has to wait. It is a guess: others may come at the same time.
func (l *lane) free(now time.Time) bool {
	return len(l.slots) < cap(l.slots) && l.waiting.Load() == 0 && l.rate.TokensAt(now) >= 1
}

// podShares bound what one pod has of the reserved reviews. The zero value is ready.
type podShares struct {
	mu   sync.Mutex
	each map[string]*rate.Limiter
}

// allows takes one of a pod's share. With very many pods all begin anew, which the lane's own rate bounds.
func (s *podShares) allows(pod string, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.each == nil || len(s.each) >= mostPods {
		s.each = map[string]*rate.Limiter{}
	}
	one := s.each[pod]
	if one == nil {
		one = rate.NewLimiter(rate.Every(podEvery), podBurst)
		s.each[pod] = one
	}
	return one.AllowN(now, 1)
}
