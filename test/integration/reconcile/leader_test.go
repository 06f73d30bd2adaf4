//go:build unix

package reconcile

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lanyard-k8s/lanyard/exchange/reconcile"
	"github.com/lanyard-k8s/lanyard/test/timing"
)

// leads says whether a replica's metrics call it the leader.
func leads(t *testing.T, reg *prometheus.Registry) bool {
	t.Helper()
	families, err := reg.Gather()
	must(t, err)
	for _, f := range families {
		if f.GetName() == "lanyard_exchange_leader" {
			return f.GetMetric()[0].GetGauge().GetValue() == 1
		}
	}
	t.Fatal("there is no such metric")
	return false
}

// TestOneLeads runs two replicas with one lease: one of them leads, and the other follows as soon as it stops.
func TestOneLeads(t *testing.T) {
	w := theWorld(t)
	w.running(t).stop()
	var rigs []*rig
	var regs []*prometheus.Registry
	for _, name := range []string{"one", "two"} {
		reg := prometheus.NewRegistry()
		m, err := reconcile.NewMetrics(reg)
		must(t, err)
		rigs, regs = append(rigs, w.begin(t, func(o *reconcile.Options) {
			o.Metrics, o.Lease = m, &reconcile.Lease{Namespace: release, Name: "lanyard-exchange", Identity: name}
		})), append(regs, reg)
	}
	first := 0
	timing.Within(t, 30*time.Second, "one leads", func() bool {
		one, two := leads(t, regs[0]), leads(t, regs[1])
		if two {
			first = 1
		}
		return one != two
	})
	ns := w.namespace(t, true, "alice")
	job := makeJob(t, w.as(t, "alice"), ns, newJob("led"))
	rigs[first].submitted(job.UID)
	if leads(t, regs[1-first]) {
		t.Error("both lead")
	}
	rigs[first].stop()
	if leads(t, regs[first]) {
		t.Error("one that has stopped leads")
	}
	took := timing.Within(t, 2*time.Minute, "the other leads", func() bool { return leads(t, regs[1-first]) })
	t.Logf("the other leads after %s", took.Round(time.Millisecond))
	job = makeJob(t, w.as(t, "alice"), ns, newJob("led-by-the-other"))
	rigs[1-first].submitted(job.UID)
}
