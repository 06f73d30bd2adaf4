package store

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	healtheventv1 "github.com/lanyard-k8s/lanyard/api/healthevent/v1"
	"github.com/lanyard-k8s/lanyard/connector/nodebinding"
	"github.com/lanyard-k8s/lanyard/connector/sink"
)

func TestMain(m *testing.M) {
	if path := os.Getenv(childPath); path != "" {
		storeForEver(path)
	}
	code := m.Run()
	shared.stop()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// received is a fixed instant.
func received() time.Time { return time.Unix(1_700_000_000, 123_000).UTC() }

// drivers opens an empty store of each driver. It skips, aloud, the one that is not there.
func drivers() map[string]func(*testing.T, Options) *Store {
	return map[string]func(*testing.T, Options) *Store{
		"sqlite": func(t *testing.T, o Options) *Store {
			return opened(t, func(ctx context.Context) (*Store, error) {
				return OpenSQLite(ctx, filepath.Join(t.TempDir(), "store", "events.db"), o)
			})
		},
		"postgres": func(t *testing.T, o Options) *Store {
			dsn := shared.database(t)
			return opened(t, func(ctx context.Context) (*Store, error) { return OpenPostgres(ctx, dsn, o) })
		},
	}
}

func opened(t *testing.T, open func(context.Context) (*Store, error)) *Store {
	t.Helper()
	s, err := open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// batch is one of n events by the pod with a UID.
func batch(podUID, key string, n int) sink.Batch {
	events := make([]*healtheventv1.HealthEvent, n)
	for i := range events {
		events[i] = &healtheventv1.HealthEvent{CheckName: "GpuXidError", NodeName: "node-a", Id: fmt.Sprint(key, "-", i)}
	}
	b := sink.NewBatch(events, sink.Caller{Username: "system:serviceaccount:gpu:monitor", PodUID: podUID}, nodebinding.NodeLocal, received())
	b.Key = key
	return b
}

func count(t *testing.T, s *Store, where string, args ...any) int {
	t.Helper()
	var n int
	if err := s.db.QueryRowContext(t.Context(), "SELECT count(*) FROM health_events WHERE "+where, args...).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}
