package tokenreview

import (
	"context"
	"errors"
	"time"

	"k8s.io/utils/clock"

	"github.com/lanyard-k8s/lanyard/internal/liveness"
)

// Pods says whether a pod is alive; *liveness.Pods does. It must be quick: every Review asks it.
type Pods interface {
	State(uid string, now time.Time) liveness.State
	Subscribe(died func(uid string)) (cancel func())
}

// Options make a Reviewer. Backend and Audience are needed, the rest has defaults.
type Options struct {
	Backend  Backend
	Audience string
	// Reviewer names the backend; verdicts of one are never taken for another's.
	Reviewer string
	// Pods is nil where no pods are watched; every bound token is then reviewed again every FallbackEvery.
	Pods Pods
	// Look asks somebody who knows about the pod in an accepted token that Pods does not: whether it runs. *liveness.Pods.Look does. An
	// error keeps the token from being accepted now; Unknown lets the review stand. Nil is not asked.
	Look func(ctx context.Context, namespace, name, uid string) (liveness.State, error)
	// Lenient is strictLiveness: false. Dead pods are then left to the API server's judgement, token_expired counts as
	// token_invalid and rate_limited as validator_unavailable.
	Lenient bool
	// SingleAudience refuses tokens that are meant for others too, although we are among those that they are meant for.
	SingleAudience bool

	MaxEntries    int           // verdicts remembered; 16,384
	MaxPerPod     int           // of them for one pod; 4
	NegativeFor   time.Duration // how long a refusal is remembered, at most 2 s; 2 s
	MaxNegative   int           // refusals remembered; 1,024
	RefreshMin    time.Duration // a verdict is reviewed again after a time between these; 5 min
	RefreshMax    time.Duration // 10 min
	FallbackEvery time.Duration // or after this one where no watch tells whether its pod lives; 10 s

	QPS         float64       // reviews a second; 50
	Burst       int           // and at once; 100
	MaxInFlight int           // reviews under way at once; 16
	MaxWaiting  int           // tokens waiting for theirs; 512
	AnswerIn    time.Duration // how long a caller waits at most; 2 s
	FailedBurst int           // failed tokens that a connection may bring at once; 20
	FailedEvery time.Duration // and then one every so often; 1 s
	OpenAfter   int           // failed reviews in a row that open the circuit breaker; 3
	OpenFor     time.Duration // how long it stays open before it lets one through; 1 s

	// Clock is the real one if nil. The circuit breaker keeps to the real one.
	Clock clock.WithTicker
	// Recorder is told what happens, for metrics; nil is nobody.
	Recorder Recorder
}

// maxNegativeFor bounds NegativeFor: an API server that cannot look something up says "invalid" too, and must be believed
// only briefly.
const maxNegativeFor = 2 * time.Second

// filled returns the options with their defaults, or what is wrong with them.
func (o Options) filled() (Options, error) {
	if o.Backend == nil || o.Audience == "" {
		return o, errors.New("tokenreview: a backend and an audience are needed")
	}
	fill(&o.MaxEntries, 16<<10)
	fill(&o.MaxPerPod, 4)
	fill(&o.NegativeFor, maxNegativeFor)
	fill(&o.MaxNegative, 1<<10)
	fill(&o.RefreshMin, 5*time.Minute)
	fill(&o.RefreshMax, max(10*time.Minute, o.RefreshMin))
	fill(&o.FallbackEvery, 10*time.Second)
	fill(&o.QPS, 50)
	fill(&o.Burst, 100)
	fill(&o.MaxInFlight, 16)
	fill(&o.MaxWaiting, 512)
	fill(&o.AnswerIn, 2*time.Second)
	fill(&o.FailedBurst, 20)
	fill(&o.FailedEvery, time.Second)
	fill(&o.OpenAfter, 3)
	fill(&o.OpenFor, time.Second)
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Recorder == nil {
		o.Recorder = nobody{}
	}
	return o, o.check()
}

// check refuses what would remove a bound.
func (o Options) check() error {
	for _, n := range []float64{
		float64(o.MaxEntries), float64(o.MaxPerPod), float64(o.NegativeFor), float64(o.MaxNegative), float64(o.RefreshMin),
		float64(o.RefreshMax), float64(o.FallbackEvery), o.QPS, float64(o.Burst), float64(o.MaxInFlight), float64(o.MaxWaiting),
		float64(o.AnswerIn), float64(o.FailedBurst), float64(o.FailedEvery), float64(o.OpenAfter), float64(o.OpenFor),
	} {
		if !(n > 0) {
			return errors.New("tokenreview: every limit must be positive")
		}
	}
	switch {
	case o.NegativeFor > maxNegativeFor:
		return errors.New("tokenreview: NegativeFor must not exceed 2s")
	case o.RefreshMin > o.RefreshMax:
		return errors.New("tokenreview: RefreshMin must not exceed RefreshMax")
	default:
		return nil
	}
}

func fill[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
