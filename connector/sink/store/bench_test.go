package store

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	healtheventv1 "github.com/lanyard-k8s/lanyard/api/healthevent/v1"
	"github.com/lanyard-k8s/lanyard/connector/nodebinding"
	"github.com/lanyard-k8s/lanyard/connector/sink"
)

// BenchmarkDeliver measures durable batches of one event in SQLite.
func BenchmarkDeliver(b *testing.B) {
	s, err := OpenSQLite(b.Context(), filepath.Join(b.TempDir(), "store", "events.db"), Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		n++
		if _, err := s.Deliver(b.Context(), batch("pod", fmt.Sprint(n), 1)); err != nil {
			b.Fatal(err)
		}
	}
}

// lifelike is a batch of one event as a GPU monitor sends it, with all that is known of the caller.
func lifelike(i int) sink.Batch {
	b := sink.NewBatch([]*healtheventv1.HealthEvent{{
		Version: 1, Agent: "gpu-health-monitor", ComponentClass: "GPU", CheckName: "GpuXidError", IsFatal: true,
		Message: "XID 79: GPU has fallen off the bus", RecommendedAction: healtheventv1.RecommendedAction_RESTART_BM,
		ErrorCode: []string{"79"}, NodeName: fmt.Sprintf("gpu-node-%05d.cluster.example", i),
		EntitiesImpacted: []*healtheventv1.Entity{{EntityType: "GPU_UUID", EntityValue: "GPU-6b8f1c9e-0d3e-4f7c-8f43-0a0b1c2d3e4f"}},
		Metadata:         map[string]string{"driver": "575.57.08"},
	}}, sink.Caller{
		Username: "system:serviceaccount:gpu-monitors:gpu-health-monitor", PodName: fmt.Sprintf("gpu-health-monitor-%05d", i),
		PodUID: fmt.Sprintf("6a1f9cde-7d4c-4f6f-9d3e-%012d", i), Node: fmt.Sprintf("gpu-node-%05d.cluster.example", i),
		NodeUID: fmt.Sprintf("7b2f9cde-7d4c-4f6f-9d3e-%012d", i), CredentialID: fmt.Sprintf("JTI=8c3f9cde-7d4c-4f6f-9d3e-%012d", i),
	}, nodebinding.NodeLocal, received())
	b.Key = fmt.Sprintf("9d4f9cde-7d4c-4f6f-9d3e-%012d", i)
	return b
}

// BenchmarkSize reports what an event takes in bytes of each database, indexes included.
func BenchmarkSize(b *testing.B) {
	const many = 5000
	for name, tc := range map[string]struct {
		open func(*testing.B) (*Store, error)
		size string
	}{
		"sqlite": {
			func(b *testing.B) (*Store, error) {
				return OpenSQLite(b.Context(), filepath.Join(b.TempDir(), "store", "events.db"), Options{})
			}, `SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()`,
		},
		"postgres": {
			func(b *testing.B) (*Store, error) { return OpenPostgres(b.Context(), shared.database(b), Options{}) },
			`SELECT pg_total_relation_size('health_events')`,
		},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				s, err := tc.open(b)
				if err != nil {
					b.Fatal(err)
				}
				for i := range many {
					if _, err := s.Deliver(context.Background(), lifelike(i)); err != nil {
						b.Fatal(err)
					}
				}
				var size int64
				if err := s.db.QueryRowContext(b.Context(), tc.size).Scan(&size); err != nil {
					b.Fatal(err)
				}
				if err := s.Close(); err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(size)/many, "B/event")
				b.ReportMetric(0, "ns/op")
			}
		})
	}
}
