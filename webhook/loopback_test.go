package webhook

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/lanyard-k8s/lanyard/test/podtest"
)

// BenchmarkLoopback sends the medium pod over TLS on loopback at 500 reviews a second, whether or not the one before has
// been answered, and reports how long answers took from the moment that they were due. The bar is a p99 below 5 ms.
func BenchmarkLoopback(b *testing.B) {
	const interval = time.Second / 500
	p := newPair(b)
	r := serve(b, p, 0)
	defer r.end(b)
	c := client(p)
	defer c.CloseIdleConnections()
	body := podtest.Review(podtest.Medium())
	var mu sync.Mutex
	var took []time.Duration
	var calls sync.WaitGroup
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for b.Loop() {
		due := <-tick.C
		calls.Go(func() {
			if _, err := call(c, r.url, body); err != nil {
				b.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			took = append(took, time.Since(due))
		})
	}
	calls.Wait()
	slices.Sort(took)
	for _, q := range []struct {
		name string
		at   int
	}{{"p50-ms", 50}, {"p99-ms", 99}} {
		b.ReportMetric(float64(took[len(took)*q.at/100].Microseconds())/1000, q.name)
	}
}
