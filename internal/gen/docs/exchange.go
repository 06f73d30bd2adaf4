package main

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lanyard-k8s/lanyard/exchange"
	"github.com/lanyard-k8s/lanyard/exchange/reconcile"
	"github.com/lanyard-k8s/lanyard/exchange/settings"
	"github.com/lanyard-k8s/lanyard/internal/mint"
)

// exchangeYAML is the exchange's configuration with every key and its default; tests hold it against the loader.
//
//go:embed exchange.yaml
var exchangeYAML []byte

// exchangePage shows the annotated file, once the loader has accepted it.
func exchangePage(string) ([]byte, error) {
	if _, err := settings.Parse(exchangeYAML); err != nil {
		return nil, fmt.Errorf("the loader refuses the example: %w", err)
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "# Configuration of the exchange\n\n%s\n\n```yaml\n%s```\n", mark, exchangeYAML)
	return b.Bytes(), nil
}

// exchangeMetrics registers every series of both parts of the exchange, those of its state among them.
func exchangeMetrics(reg prometheus.Registerer) error {
	m, err := exchange.NewMetrics(reg)
	if err != nil {
		return err
	}
	none, yes := func() int { return 0 }, func() bool { return true }
	_, err = reconcile.NewMetrics(reg)
	return errors.Join(err, m.Observe(reg, exchange.Gauges{
		Waiting: none, Cached: none, Down: yes, Ready: yes, StoreUp: yes, Keys: func() map[mint.State]int { return nil },
		KeyAge: func() time.Duration { return 0 },
	}))
}
