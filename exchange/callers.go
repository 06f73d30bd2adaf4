package exchange

import (
	"fmt"
	"time"

	"github.com/maypok86/otter/v2"
	"golang.org/x/time/rate"

	"github.com/lanyard-k8s/lanyard/exchange/settings"
	"github.com/lanyard-k8s/lanyard/internal/tokenreview"
)

// mostCallers is how many addresses are remembered. Whoever has more than that starts anew with each, and meets the reviewer's own
// limits.
const mostCallers = 16 << 10

// callers bound the failed proofs of one address. A caller whose proofs are good never notices.
type callers struct {
	reviewer Reviewer
	every    rate.Limit
	burst    int
	known    *otter.Cache[string, *caller]
}

// caller is one address: its failed tokens, which the reviewer counts, and its failed Docker proofs.
type caller struct {
	tokens *tokenreview.Bucket
	proofs *rate.Limiter
}

func newCallers(r Reviewer, s settings.Review) (*callers, error) {
	known, err := otter.New(&otter.Options[string, *caller]{
		MaximumSize: mostCallers, ExpiryCalculator: otter.ExpiryAccessing[string, *caller](10 * time.Minute),
	})
	if err != nil {
		return nil, fmt.Errorf("remember callers: %w", err)
	}
	return &callers{
		reviewer: r, every: rate.Every(time.Minute / time.Duration(max(1, s.FailuresPerMinute))), burst: int(max(1, s.FailuresBurst)), known: known,
	}, nil
}

func (c *callers) of(address string) *caller {
	if who, ok := c.known.GetIfPresent(address); ok {
		return who
	}
	who, _ := c.known.SetIfAbsent(address, &caller{tokens: c.reviewer.NewBucket(), proofs: rate.NewLimiter(c.every, c.burst)})
	return who
}

func (c *callers) bucket(address string) *tokenreview.Bucket { return c.of(address).tokens }

// mayTry says whether an address may bring another Docker proof.
func (c *callers) mayTry(address string, now time.Time) bool {
	return c.of(address).proofs.TokensAt(now) >= 1
}

// charge takes for a proof that was refused.
func (c *callers) charge(address string, now time.Time) { c.of(address).proofs.ReserveN(now, 1) }

// close ends what the memory does in the background.
func (c *callers) close() { c.known.StopAllGoroutines() }
