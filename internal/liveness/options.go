package liveness

import (
	"errors"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/metadata"
	"k8s.io/utils/clock"
)

// Options adjust a watch. The zero value is a good one.
type Options struct {
	// Clock is the real one if nil.
	Clock clock.Clock
	// Log is told about watches that break; the zero value is silence.
	Log logr.Logger
	// Remember is how long a dead pod is remembered, MaxDead how many are; zero is DefaultRemember and DefaultMaxDead.
	// They need not cover the longest life of a token: a pod that has ended stays dead for as long as its watch shows it, and one
	// that its watch does not show is Unknown once it is forgotten, and looked for. What is remembered spares the API server that question.
	Remember time.Duration
	MaxDead  int
	// Silence is how long a watch may say nothing past its bookmark before it is no longer relied on; zero is 10 s.
	Silence time.Duration
	// Asking is what Look asks with; the watches' own client if nil. It should not be held to a rate: when a watch is silent every review
	// looks, and the relist that ends the silence would wait behind them.
	Asking metadata.Interface
}

// filled returns the options with their defaults.
func (o Options) filled() (Options, error) {
	if o.Remember < 0 || o.MaxDead < 0 || o.Silence < 0 {
		return o, errors.New("liveness: Remember, MaxDead and Silence must not be negative")
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Log.GetSink() == nil {
		o.Log = logr.Discard()
	}
	if o.Remember == 0 {
		o.Remember = DefaultRemember
	}
	if o.MaxDead == 0 {
		o.MaxDead = DefaultMaxDead
	}
	return o, nil
}
