package tokenreview

import (
	"time"

	"golang.org/x/time/rate"
)

// Bucket bounds the failed tokens of one connection. Whoever serves connections makes one for each with NewBucket and hands
// it to every Review on it. It is looked at only where a call would cost a review, and only refusals are charged to it, so a
// connection whose tokens are known or good never notices. Calls that were already under way may overdraw it; they are paid
// for before the next. A nil Bucket bounds nothing.
type Bucket struct {
	limiter *rate.Limiter
}

// NewBucket returns a Bucket for a new connection.
func (r *Reviewer) NewBucket() *Bucket {
	return &Bucket{limiter: rate.NewLimiter(rate.Every(r.options.FailedEvery), r.options.FailedBurst)}
}

// allows says whether there is anything left.
func (b *Bucket) allows(now time.Time) bool { return b == nil || b.limiter.TokensAt(now) >= 1 }

// charge takes for a token that was refused.
func (b *Bucket) charge(now time.Time) {
	if b != nil {
		b.limiter.ReserveN(now, 1)
	}
}
