package store

import (
	"fmt"
	"path/filepath"
	"testing"
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
