package exchange

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lanyard-k8s/lanyard/internal/mint"
)

// Gauges are what is asked when somebody scrapes. Nil members are left out.
type Gauges struct {
	Waiting func() int // requests that are held
	Cached  func() int // verdicts remembered
	Down    func() bool
	Ready   func() bool
	StoreUp func() bool
	Keys    func() map[mint.State]int
	KeyAge  func() time.Duration // of the key that signs
	// KeyEvery is how often keys are rotated; zero is never.
	KeyEvery time.Duration
}

// Observe registers the gauges.
func (m *Metrics) Observe(reg prometheus.Registerer, g Gauges) error {
	var errs []error
	ask := func(name, help string, labels prometheus.Labels, f func() float64) {
		errs = append(errs, reg.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: labels}, f)))
	}
	if g.Waiting != nil {
		ask("lanyard_exchange_waiting", "Token requests that wait for their pod to be judged.", nil, func() float64 { return float64(g.Waiting()) })
	}
	if g.Cached != nil {
		ask("lanyard_exchange_cached_verdicts", "Verdicts about tokens that are remembered.", nil, func() float64 { return float64(g.Cached()) })
	}
	for name, flag := range map[string]struct {
		help string
		f    func() bool
	}{
		"lanyard_exchange_api_server_down": {"Whether the API server is known to be down: 1 or 0.", g.Down},
		"lanyard_exchange_ready":           {"Whether the exchange is ready: 1 or 0.", g.Ready},
		"lanyard_exchange_store_up":        {"Whether the database answered when it was last asked: 1 or 0.", g.StoreUp},
	} {
		if flag.f != nil {
			ask(name, flag.help, nil, func() float64 { return number(flag.f()) })
		}
	}
	if g.Keys != nil {
		for _, s := range []mint.State{mint.Next, mint.Active, mint.Retired} {
			ask("lanyard_exchange_signing_keys", "Signing keys by what they are doing.", prometheus.Labels{"state": string(s)},
				func() float64 { return float64(g.Keys()[s]) })
		}
	}
	if g.KeyAge != nil {
		ask("lanyard_exchange_signing_key_age_seconds", "How long the key that signs has done so; 0 where none does.", nil, func() float64 { return g.KeyAge().Seconds() })
		ask("lanyard_exchange_key_rotation_interval_seconds", "How often keys are rotated (keys.rotateEverySeconds); 0 is never.", nil, g.KeyEvery.Seconds)
	}
	return errors.Join(errs...)
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
