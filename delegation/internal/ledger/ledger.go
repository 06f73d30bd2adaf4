// Package ledger is delegation.Store over database/sql. SQLite and PostgreSQL speak the same statements here, and differ in how
// they are opened, how they lock, what their errors mean and how they tell of changes: that is a Dialect. What becomes of a
// record is decided by package delegation; here a transaction reads it under a lock, asks, and writes the answer.
//
// Locks are taken in one order: submissions, rows, guard.
package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/lanyard-k8s/lanyard/delegation"
)

// Dialect is what differs between databases.
type Dialect struct {
	// ForUpdate and ForShare end a SELECT whose row must stand still until the transaction ends.
	ForUpdate string
	ForShare  string
	// Kind finds the sentinel of package delegation that an error of the driver is, nil if it knows none.
	Kind func(error) error
	// Retry says whether the transaction lost to another and may be run again.
	Retry func(error) bool
	// Announce tells other processes of rows when the transaction is committed; nil if there are no others. Where it is set, this
	// process hears of its own changes by the same way.
	Announce func(ctx context.Context, tx *sql.Tx, rows []string) error
	// Prepare keeps the statement of Get prepared. A pooler between us and the database may not allow it.
	Prepare bool
}

// Store is a delegation.Store. Its databases belong to it.
type Store struct {
	Hub
	dialect Dialect
	witness witness
	read    *sql.DB
	write   *sql.DB
	get     *sql.Stmt
}

// New makes a store of a database for reading and one for writing, which may be the same.
func New(ctx context.Context, d Dialect, read, write *sql.DB) (*Store, error) {
	s := &Store{dialect: d, read: read, write: write}
	if d.Prepare {
		stmt, err := read.PrepareContext(ctx, getStanding)
		if err != nil {
			return nil, s.failure(ctx, "prepare a statement", err)
		}
		s.get = stmt
	}
	return s, nil
}

// Close ends the subscriptions and closes the databases.
func (s *Store) Close() error {
	s.Hub.Close()
	var errs []error
	if s.get != nil {
		errs = append(errs, s.get.Close())
	}
	errs = append(errs, s.read.Close())
	if s.write != s.read {
		errs = append(errs, s.write.Close())
	}
	return errors.Join(errs...)
}

// change is a transaction in the making: what it has done is told once it is committed.
type change struct {
	*sql.Tx
	s     *Store
	rows  []string // changed
	ended bool     // something was ended, which moves the mark
	mark  delegation.Mark
}

// mostRuns is how often a transaction is run that keeps losing to others.
const mostRuns = 5

// transact runs f in a transaction, again if it lost to another one.
func (s *Store) transact(ctx context.Context, what string, f func(*change) error) error {
	var err error
	for range mostRuns {
		if err = s.once(ctx, f); err == nil || s.dialect.Retry == nil || !s.dialect.Retry(err) {
			break
		}
	}
	if err != nil {
		return s.failure(ctx, what, err)
	}
	return nil
}

func (s *Store) once(ctx context.Context, f func(*change) error) error {
	before, err := s.witness.newest()
	if err != nil {
		return err
	}
	tx, err := s.write.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	defer func() { _ = tx.Rollback() }() // after a commit it does nothing
	c := &change{Tx: tx, s: s}
	if err := f(c); err != nil {
		return err
	}
	if c.ended {
		if err := c.moveMark(ctx, before); err != nil {
			return err
		}
	}
	if s.dialect.Announce != nil && len(c.rows) > 0 {
		if err := s.dialect.Announce(ctx, tx, c.rows); err != nil {
			return fmt.Errorf("announce: %w", err)
		}
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	if err := s.witness.met(delegation.Mark{}, c.mark); err != nil {
		return err
	}
	if s.dialect.Announce == nil && len(c.rows) > 0 {
		s.Tell(c.rows...)
	}
	return nil
}

// moveMark counts an ending, unless the database has forgotten others: counting on would hide that.
func (c *change) moveMark(ctx context.Context, before delegation.Mark) error {
	if err := c.QueryRowContext(ctx, bumpMark).Scan(&c.mark.Lineage, &c.mark.Ended); err != nil {
		return fmt.Errorf("move the mark: %w", err)
	}
	return c.s.witness.met(before, delegation.Mark{Lineage: c.mark.Lineage, Ended: c.mark.Ended - 1}) // as it stood before ours
}

// failure gives an error its sentinel. What the caller's context did is an unavailability too, and stays visible.
func (s *Store) failure(ctx context.Context, what string, err error) error {
	for _, known := range []error{
		delegation.ErrNotFound, delegation.ErrInvalid, delegation.ErrConflict, delegation.ErrEnded, delegation.ErrCorrupt,
		delegation.ErrRestored,
	} {
		if errors.Is(err, known) {
			return fmt.Errorf("%s: %w", what, err)
		}
	}
	if cause := ctx.Err(); cause != nil {
		return fmt.Errorf("%s: %w: %w", what, delegation.ErrUnavailable, cause)
	}
	kind := s.dialect.Kind(err)
	if kind == nil {
		kind = delegation.ErrUnavailable
	}
	return fmt.Errorf("%s: %w: %w", what, kind, err)
}
