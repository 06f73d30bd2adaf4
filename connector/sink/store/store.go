package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"

	"github.com/lanyard-k8s/lanyard/connector/sink"
)

// Options are what both drivers know. The zero value keeps everything for ever.
type Options struct {
	// Retention is how long an event is kept; 0 means for ever. A repetition is recognised as long as the row is there.
	Retention time.Duration
	// Log gets what an operator must know. The zero Logger is silent.
	Log logr.Logger
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Store is an open table. Its methods may be called by several goroutines.
type Store struct {
	db      *sql.DB
	dialect dialect
	o       Options
	insert  string
	writing chan struct{} // holds as many as may write at once
}

// dialect is what differs between the two.
type dialect interface {
	// parameter is the n-th parameter's text, from 1.
	parameter(n int) string
	// classify turns the driver's error into one of the sink's.
	classify(err error) error
	// writers is how many transactions may write at once.
	writers() int
}

// newStore brings the table up to date and returns the store. It takes db over.
func newStore(ctx context.Context, db *sql.DB, d dialect, migrate func(context.Context, *sql.DB) error, o Options) (*Store, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if err := migrate(ctx, db); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &Store{
		db: db, dialect: d, o: o, insert: insertStatement(d), writing: make(chan struct{}, d.writers()),
	}, nil
}

// Name is sink.Store.
func (s *Store) Name() sink.Name { return sink.Store }

// Close closes the database.
func (s *Store) Close() error { return s.db.Close() }

// Ping says whether the database answers, for readiness.
func (s *Store) Ping(ctx context.Context) error {
	if err := s.db.PingContext(ctx); err != nil {
		return s.dialect.classify(err)
	}
	return nil
}

// Deliver stores the batch's events that are not there yet.
func (s *Store) Deliver(ctx context.Context, b sink.Batch) (sink.Report, error) {
	if len(b.Events) == 0 {
		return nil, nil
	}
	select {
	case s.writing <- struct{}{}:
		defer func() { <-s.writing }()
	case <-ctx.Done():
		return nil, sink.Retry(sink.Timeout, fmt.Errorf("wait to write: %w", ctx.Err()))
	}
	stored, err := s.store(ctx, b)
	if err != nil {
		if ctx.Err() != nil {
			return nil, sink.Retry(sink.Timeout, fmt.Errorf("store batch: %w", ctx.Err()))
		}
		return nil, s.dialect.classify(err)
	}
	report := sink.Report{}
	if stored > 0 {
		report[sink.Written] = stored
	}
	if again := len(b.Events) - stored; again > 0 {
		report[sink.Duplicate] = again
	}
	return report, nil
}

// store writes the batch in one transaction and returns how many of its events are new.
func (s *Store) store(ctx context.Context, b sink.Batch) (int, error) {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return 0, err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after a commit
	statement, err := tx.PrepareContext(ctx, s.insert)
	if err != nil {
		return 0, err
	}
	defer func() { _ = statement.Close() }()
	stored := 0
	for i, e := range b.Events {
		values, err := row(b, i, e)
		if err != nil {
			return 0, err
		}
		result, err := statement.ExecContext(ctx, values...)
		if err != nil {
			return 0, err
		}
		n, err := result.RowsAffected()
		if err != nil {
			return 0, err
		}
		stored += int(n)
	}
	return stored, tx.Commit()
}
