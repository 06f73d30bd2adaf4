package spool

import (
	"context"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lanyard-k8s/lanyard/connector/sink"
)

type discard struct{}

func (discard) Name() sink.Name { return sink.Log }

func (discard) Deliver(context.Context, sink.Batch) (sink.Report, error) { return nil, nil }

// BenchmarkAppend measures appends that are durable, with an fsync for each group.
func BenchmarkAppend(b *testing.B) {
	for name, callers := range map[string]int{"1 caller": 1, "64 callers": 64} {
		b.Run(name, func(b *testing.B) {
			s, err := Open(Options{
				Directory: filepath.Join(b.TempDir(), "spool"), Bytes: 1 << 40, Sinks: []sink.Sink{discard{}}, Decide: allow,
				Group: time.Duration(callers/64) * 2 * time.Millisecond,
			})
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			batch := batchOf("system:serviceaccount:gpu:monitor", "1")
			b.ReportAllocs()
			b.SetParallelism(max(1, callers/2))
			b.ResetTimer()
			if callers == 1 {
				for b.Loop() {
					if err := s.Append(b.Context(), batch); err != nil {
						b.Fatal(err)
					}
				}
				return
			}
			b.RunParallel(func(p *testing.PB) {
				for p.Next() {
					if err := s.Append(b.Context(), batch); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}

// BenchmarkDeliver measures reading, deciding and noting a delivery.
func BenchmarkDeliver(b *testing.B) {
	s, err := Open(Options{
		Directory: filepath.Join(b.TempDir(), "spool"), Bytes: 1 << 40, Sinks: []sink.Sink{discard{}}, Decide: allow,
	})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	batch := batchOf("system:serviceaccount:gpu:monitor", "1")
	var left atomic.Int64
	left.Store(int64(b.N))
	done := make(chan struct{})
	for range 256 {
		go func() {
			for left.Add(-1) >= 0 {
				if err := s.Append(b.Context(), batch); err != nil {
					b.Error(err)
				}
			}
			done <- struct{}{}
		}()
	}
	for range 256 {
		<-done
	}
	b.ReportAllocs()
	b.ResetTimer()
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	if err := s.Drain(b.Context()); err != nil {
		b.Fatal(err)
	}
	b.StopTimer()
	cancel()
	if err := <-ended; err != nil {
		b.Fatal(err)
	}
}
