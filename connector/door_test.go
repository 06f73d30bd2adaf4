package connector

import (
	"context"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/tap"

	healtheventv1 "github.com/lanyard-k8s/lanyard/api/healthevent/v1"
)

// anybody may send a batch, whatever its header.
func anybody(context.Context, metadata.MD) error { return nil }

// TestT27SlowBodies: a call whose message never ends is ended, and one whose caller is in a hurry is left alone.
func TestT27SlowBodies(t *testing.T) {
	t.Parallel()
	m, err := NewMetrics(prometheus.NewRegistry())
	must(t, err)
	d := newDoor(m, logr.Discard(), &seats{most: 1 << 20, first: 1 << 10}, anybody)
	report := healtheventv1.PlatformConnector_HealthEventOccurredV1_FullMethodName
	for name, tc := range map[string]struct {
		method string
		within time.Duration // the caller's own deadline; 0 for none
		want   time.Duration // the deadline then; 0 for none
	}{
		"no deadline":         {report, 0, bodyIn},
		"a publisher's":       {report, 5 * time.Second, 5 * time.Second},
		"one that is far off": {report, time.Hour, bodyIn},
		"a health check":      {healthv1.Health_Check_FullMethodName, 0, bodyIn},
		"a health watch":      {healthv1.Health_Watch_FullMethodName, 0, 0},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		if tc.within > 0 {
			ctx, cancel = context.WithTimeout(t.Context(), tc.within)
		}
		got, err := d.knock(ctx, &tap.Info{FullMethodName: tc.method})
		must(t, err)
		deadline, ok := got.Deadline()
		if ok != (tc.want > 0) || ok && (time.Until(deadline) > tc.want || time.Until(deadline) < tc.want-2*time.Second) {
			t.Errorf("%s: deadline in %s (%t), want %s", name, time.Until(deadline), ok, tc.want)
		}
		cancel()
		if got.Err() == nil {
			t.Errorf("%s: outlives its call", name)
		}
		eventually(t, name+": its seat is free", func() bool { return d.seats.now() == 0 })
	}
	_, err = d.knock(t.Context(), &tap.Info{FullMethodName: "/x/y"})
	wantCode(t, "an unknown method, before its message", err, codes.PermissionDenied)
}
