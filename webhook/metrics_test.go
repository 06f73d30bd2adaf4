package webhook

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/mutate"
	"github.com/lanyard-k8s/lanyard/mutate/violation"
)

func TestMetricsAreWellFormed(t *testing.T) {
	t.Parallel()
	_, reg := newDesk(t)
	problems, err := testutil.GatherAndLint(reg)
	if err != nil || len(problems) > 0 {
		t.Errorf("%v %v", problems, err)
	}
}

// series counts a registry's series by metric.
func series(t *testing.T, reg *prometheus.Registry) map[string]int {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]int{}
	for _, f := range families {
		out[f.GetName()] = len(f.GetMetric())
	}
	return out
}

func TestExpectedRequestsAddNoSeries(t *testing.T) {
	t.Parallel()
	d, reg := newDesk(t)
	before := series(t, reg)
	for _, name := range []string{"requests_total", "request_duration_seconds", "violations_total", "injections_total", "request_bytes", "in_flight", "decode_errors_total", "tls_cert_not_after_seconds"} {
		if before["lanyard_admission_"+name] == 0 {
			t.Errorf("%s has no series at the start", name)
		}
	}
	for _, h := range hooks() {
		post(d, h.path, ask{resource: "jobs", group: "batch", kind: "Job"}.body())
		post(d, h.path, ask{}.body())
	}
	post(d, wire.PathMutateJob, ask{}.body())
	after := series(t, reg)
	delete(before, "lanyard_admission_requests_total") // jobs on paths for pods are not expected
	delete(after, "lanyard_admission_requests_total")
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("(-before +after):\n%s", diff)
	}
}

func TestForgedReviewsAddFewSeries(t *testing.T) {
	t.Parallel()
	d, reg := newDesk(t)
	before := series(t, reg)["lanyard_admission_requests_total"]
	for i := range 50 {
		x := fmt.Sprintf("x%d", i)
		post(d, wire.PathMutateJob, ask{resource: x, group: x, kind: x, sub: x, operation: x}.body())
	}
	if added := series(t, reg)["lanyard_admission_requests_total"] - before; added != 1 {
		t.Errorf("%d series added, want one for all that is unknown", added)
	}
}

func TestCounters(t *testing.T) {
	t.Parallel()
	vs := []violation.Violation{{Reason: violation.ReservedEnv, Field: "a"}, {Reason: violation.AudienceForbidden, Field: "b"}}
	d, _ := newDesk(t, decides(mutate.Decision{Outcome: mutate.Audited, Violations: vs, Roles: []mutate.Role{mutate.Job}}, nil),
		func(o *Options) { o.Settings.Rules.Mode = mutate.Audit })
	post(d, wire.PathMutateJob, ask{}.body())
	post(d, wire.PathMutateJob, []byte("{"))
	d.metrics.CertificateLoaded(time.Unix(1700000000, 0))
	m := d.metrics
	tests := map[string]struct {
		c    prometheus.Collector
		want float64
	}{
		"the request":                           {m.requests.WithLabelValues("mutate/job", "pods", "CREATE", "audited", "false"), 1},
		"the loosened reason":                   {m.violations.WithLabelValues("reserved_env", "audit"), 1},
		"the reason that audit does not loosen": {m.violations.WithLabelValues("audience_forbidden", "enforce"), 1},
		"the injection":                         {m.injections.WithLabelValues("job", "audited"), 1},
		"the review that could not be read":     {m.decode.WithLabelValues(stageReview), 1},
		"nothing in flight":                     {m.inFlight, 0},
		"the certificate's end":                 {m.notAfter, 1700000000},
	}
	for name, tc := range tests {
		if got := testutil.ToFloat64(tc.c); math.Abs(got-tc.want) > 0 {
			t.Errorf("%s: got %v, want %v", name, got, tc.want)
		}
	}
}
