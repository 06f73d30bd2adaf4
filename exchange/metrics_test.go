package exchange_test

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/lanyard-k8s/lanyard/exchange"
)

// TestMetricsAreWellNamed checks the names and helps of all series.
func TestMetricsAreWellNamed(t *testing.T) {
	t.Parallel()
	r := newRig(t, "")
	must(t, r.metrics.Observe(r.reg, exchange.Gauges{
		Waiting: r.room.Taken, Ready: func() bool { return true }, StoreUp: func() bool { return true }, Down: func() bool { return false },
		Cached: func() int { return 0 }, Keys: r.keeper.StatesNow, KeyAge: r.keeper.Age, KeyEvery: time.Hour,
	}))
	problems, err := testutil.GatherAndLint(r.reg)
	must(t, err)
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	families, err := r.reg.Gather()
	must(t, err)
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "lanyard_exchange_") {
			t.Errorf("%s is not ours", f.GetName())
		}
	}
}

func listen(t *testing.T, address string) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", address)
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l
}
