package store

import (
	"context"
	"fmt"
	"time"

	"github.com/lanyard-k8s/lanyard/connector/sink"
)

// pruneRows is how many rows are deleted in one transaction, so that writers wait only shortly; pruneEvery is the pause
// between two rounds, and pruneTimeout what one transaction may take.
const (
	pruneRows    = 1000
	pruneEvery   = time.Hour
	pruneTimeout = 30 * time.Second
)

// Run deletes what is older than the retention, at once and then every hour, until ctx is cancelled. It returns nil.
func (s *Store) Run(ctx context.Context) error {
	tick := time.NewTicker(pruneEvery)
	defer tick.Stop()
	for {
		if n, err := s.Prune(ctx); err != nil && ctx.Err() == nil {
			s.o.Log.Error(err, "cannot delete old events")
		} else if n > 0 {
			s.o.Log.V(1).Info("deleted old events", "rows", n)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// Prune deletes what is older than the retention and returns how many rows that was.
func (s *Store) Prune(ctx context.Context) (int64, error) {
	if s.o.Retention <= 0 {
		return 0, nil
	}
	before := s.o.Now().Add(-s.o.Retention).UnixMicro()
	var total int64
	for {
		n, err := s.pruneSome(ctx, before)
		total += n
		if err != nil || n < pruneRows {
			return total, err
		}
	}
}

func (s *Store) pruneSome(ctx context.Context, before int64) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, pruneTimeout)
	defer cancel()
	select {
	case s.writing <- struct{}{}:
		defer func() { <-s.writing }()
	case <-ctx.Done():
		return 0, sink.Retry(sink.Timeout, fmt.Errorf("wait to delete: %w", ctx.Err()))
	}
	statement := fmt.Sprintf("DELETE FROM health_events WHERE id IN (SELECT id FROM health_events WHERE received_at < %s ORDER BY received_at LIMIT %d)",
		s.dialect.parameter(1), pruneRows)
	result, err := s.db.ExecContext(ctx, statement, before)
	if err != nil {
		return 0, s.dialect.classify(err)
	}
	return result.RowsAffected()
}
