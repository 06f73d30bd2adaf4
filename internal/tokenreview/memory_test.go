package tokenreview

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/utils/clock"
)

// everybody accepts every token as one of a pod of its own.
type everybody struct{ n int }

func (e *everybody) Review(context.Context, string, []string) (authenticationv1.TokenReviewStatus, error) {
	e.n++
	extra := func(s string) authenticationv1.ExtraValue { return authenticationv1.ExtraValue{strings.Clone(s)} }
	return authenticationv1.TokenReviewStatus{Authenticated: true, Audiences: []string{audience}, User: authenticationv1.UserInfo{
		Username: fmt.Sprint("system:serviceaccount:gpu-monitors:", "gpu-health-monitor"), UID: "6a1f9cde-7d4c-4f6f-9d3e-000000000001",
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:gpu-monitors", "system:authenticated"},
		Extra: map[string]authenticationv1.ExtraValue{
			"authentication.kubernetes.io/pod-name":      extra(fmt.Sprintf("gpu-health-monitor-%05d", e.n)),
			"authentication.kubernetes.io/pod-uid":       extra(fmt.Sprintf("6a1f9cde-7d4c-4f6f-9d3e-%012d", e.n)),
			"authentication.kubernetes.io/node-name":     extra(fmt.Sprintf("gpu-node-%05d.cluster.example", e.n)),
			"authentication.kubernetes.io/node-uid":      extra(fmt.Sprintf("7b2f9cde-7d4c-4f6f-9d3e-%012d", e.n)),
			"authentication.kubernetes.io/credential-id": extra(fmt.Sprintf("JTI=8c3f9cde-7d4c-4f6f-9d3e-%012d", e.n)),
		},
	}}, nil
}

// BenchmarkMemory reports what a remembered verdict costs in bytes, each of a pod of its own.
func BenchmarkMemory(b *testing.B) {
	const many = 10_000
	heap := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	for b.Loop() {
		r, err := NewReviewer(Options{
			Backend: &everybody{}, Audience: audience, Pods: living(), MaxEntries: 2 * many, QPS: 1e9, Burst: 1e9, Clock: clock.RealClock{},
		})
		if err != nil {
			b.Fatal(err)
		}
		empty := heap()
		for i := range many {
			token := tokenFor(minted{exp: time.Now().Add(time.Hour).Unix(), podUID: fmt.Sprintf("6a1f9cde-7d4c-4f6f-9d3e-%012d", i+1)})
			if _, err := r.Review(b.Context(), token, nil); err != nil {
				b.Fatal(err)
			}
		}
		full := heap()
		if n := r.Size(); n != many {
			b.Fatalf("%d verdicts, want %d", n, many)
		}
		r.Close()
		b.ReportMetric(float64(full-empty)/many, "B/verdict")
		b.ReportMetric(0, "ns/op")
	}
}
