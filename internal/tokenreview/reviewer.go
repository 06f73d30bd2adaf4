package tokenreview

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/maypok86/otter/v2"
	"golang.org/x/sync/singleflight"

	"github.com/lanyard-k8s/lanyard/internal/liveness"
)

// Reviewer says whose a token is. Make one with NewReviewer, end it with Close, and use it from any goroutine.
type Reviewer struct {
	options Options
	keys    *keyer
	known   *known
	refused *otter.Cache[key, *Error]
	limits  *limits
	denials denials
	flights singleflight.Group

	ctx         context.Context // ends with Close; reviews run under it and not under a caller's
	cancel      context.CancelFunc
	unsubscribe func()
	mu          sync.Mutex // guards closed against a flight that starts
	closed      bool
	flying      sync.WaitGroup
}

// NewReviewer returns a Reviewer, or what is missing from its options.
func NewReviewer(o Options) (*Reviewer, error) {
	o, err := o.filled()
	if err != nil {
		return nil, err
	}
	verdicts, err := newKnown(o)
	if err != nil {
		return nil, err
	}
	refusals, err := newRefused(o)
	if err != nil {
		return nil, err
	}
	r := &Reviewer{
		options: o, keys: newKeyer(o.Audience, o.Reviewer), known: verdicts, refused: refusals, limits: newLimits(o),
		unsubscribe: func() {},
	}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	if o.Pods != nil && !o.Lenient {
		r.unsubscribe = o.Pods.Subscribe(r.known.dropPod)
	}
	return r, nil
}

// Close ends what runs in the background and waits for it. A Review afterwards knows nobody new.
func (r *Reviewer) Close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.cancel()
	r.unsubscribe()
	r.flying.Wait()
	r.known.cache.StopAllGoroutines()
	r.refused.StopAllGoroutines()
}

// LetIn notes that the API server has let somebody review with our account, as the self-test does: what it holds against us from now on is
// believed only when it lasts.
func (r *Reviewer) LetIn() { r.denials.over() }

// Size is how many verdicts are remembered, for metrics.
func (r *Reviewer) Size() int {
	verdicts, _ := r.known.size()
	return verdicts
}

// Down says whether the API server is known to be down just now.
func (r *Reviewer) Down() bool { return r.limits.open() }

// answer is what one call comes to.
type answer struct {
	verdict Verdict
	source  Source
	err     error
}

// Review says whose a token is; every error is an *Error. A remembered verdict costs a hash and a look. An unknown token is
// answered within AnswerIn, and half a second before the deadline of ctx, whatever the API server does. That ctx ends harms no
// other caller with the same token.
//
// The token must be the bare credential; anything that cannot be a service account token is refused without a review.
func (r *Reviewer) Review(ctx context.Context, token string, from *Bucket) (Verdict, error) {
	a := r.answer(ctx, token, from)
	if a.err != nil {
		a.err = r.folded(a.err)
	}
	r.options.Recorder.Answered(a.source, ReasonOf(a.err))
	return a.verdict, a.err
}

func (r *Reviewer) answer(ctx context.Context, token string, from *Bucket) answer {
	if len(token) > maxToken {
		return answer{source: FromGate, err: invalid("longer than any service account token")}
	}
	id := r.keys.of(token)
	e, ok := r.known.get(id)
	now := r.options.Clock.Now() // afterwards: a verdict that arrived in between would look as if the clock had been set back
	if ok {
		if a, ok := r.recall(ctx, id, e, token, now); ok {
			return a
		}
	}
	c, err := r.gate(token, now)
	if err != nil {
		return answer{source: FromGate, err: err}
	}
	if !from.allows(now) {
		return answer{source: FromGate, err: &Error{Reason: RateLimited, Detail: "too many failed tokens on this connection"}}
	}
	a := r.first(ctx, id, token, c)
	if errors.Is(a.err, ErrInvalid) {
		from.charge(now)
	}
	return a
}

// gate refuses what needs no review. What the token says of itself serves to refuse and never to allow.
func (r *Reviewer) gate(token string, now time.Time) (claims, error) {
	c, err := read(token)
	switch {
	case err != nil:
		return c, err
	case !slices.Contains(c.audiences, r.options.Audience):
		return c, invalid("the token is not meant for us")
	case r.options.SingleAudience && len(c.audiences) != 1:
		return c, invalid("the token is meant for others too")
	case now.Sub(c.expiry) > expiryLeeway:
		return c, &Error{Reason: TokenExpired, Detail: "the token has expired"}
	case r.state(c.podUID, now) == liveness.Dead:
		return c, notLive()
	default:
		return c, nil
	}
}

// first answers for a token that is not known.
func (r *Reviewer) first(ctx context.Context, id key, token string, c claims) answer {
	if e, ok := r.refused.GetIfPresent(id); ok {
		return answer{source: FromReview, err: e}
	}
	result := r.fly(id, token, c, FirstUse, time.Time{})
	timer := r.options.Clock.NewTimer(r.patience(ctx))
	defer timer.Stop()
	select {
	case got := <-result:
		v, _ := got.Val.(Verdict)
		return answer{verdict: v, source: FromReview, err: got.Err}
	case <-timer.C():
		return answer{source: FromReview, err: unavailable("the API server did not answer in time")}
	case <-ctx.Done():
		return answer{source: FromReview, err: &Error{
			Reason: ValidatorTimeout, Detail: "the caller did not wait", Cause: context.Cause(ctx),
		}}
	}
}

// patience is how long a caller is kept waiting. A deadline that is near leaves half of the time for the answer's way. While
// the API server is down, the one review that tries whether it is back goes on without the caller who brought the token.
func (r *Reviewer) patience(ctx context.Context) time.Duration {
	const margin, inDoubt = 500 * time.Millisecond, 250 * time.Millisecond
	most := r.options.AnswerIn
	if r.limits.doubtful() {
		most = min(most, inDoubt)
	}
	deadline, ok := ctx.Deadline()
	if !ok {
		return most
	}
	left := time.Until(deadline)
	return min(most, max(left-margin, left/2))
}

// state is what is known of the pod in a token. A token without one has no pod to die.
func (r *Reviewer) state(uid string, now time.Time) liveness.State {
	switch {
	case uid == "":
		return liveness.Alive
	case r.options.Pods == nil:
		return liveness.Unknown
	}
	s := r.options.Pods.State(uid, now)
	if r.options.Lenient && s == liveness.Dead {
		return liveness.Unknown
	}
	return s
}

// folded keeps to the seed's reasons under Lenient. The error may be shared, so it is copied.
func (r *Reviewer) folded(err error) error {
	var e *Error
	if !r.options.Lenient || !errors.As(err, &e) {
		return err
	}
	c := *e
	switch e.Reason {
	case TokenExpired, PodNotLive:
		c.Reason = TokenInvalid
	case RateLimited:
		c.Reason = ValidatorUnavailable
	}
	return &c
}

func notLive() *Error {
	return &Error{Reason: PodNotLive, Detail: "the token's pod was deleted, has ended or is past its deletion time"}
}
