package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/lanyard-k8s/lanyard/delegation"
)

// submission reads a submission under a lock; zero if there is none.
func (c *change) submission(ctx context.Context, uid, lock string) (delegation.Submission, error) {
	if uid == "" {
		return delegation.Submission{}, nil
	}
	sub, err := scanSubmission(c.QueryRowContext(ctx, getSubmission+lock, uid))
	if errors.Is(err, sql.ErrNoRows) {
		return delegation.Submission{}, nil
	}
	return sub, err
}

// row reads a row under a lock; zero if there is none.
func (c *change) row(ctx context.Context, name string) (delegation.Row, error) {
	r, err := scanRow(c.QueryRowContext(ctx, getRow+c.s.dialect.ForUpdate, name))
	if errors.Is(err, sql.ErrNoRows) {
		return delegation.Row{}, nil
	}
	return r, err
}

// exec runs a statement and says how many records it touched: a statement that touches none looks like a very fast one.
func (c *change) exec(ctx context.Context, statement string, args ...any) (int, error) {
	result, err := c.ExecContext(ctx, statement, args...)
	if err != nil {
		return 0, fmt.Errorf("write: %w", err)
	}
	n, err := result.RowsAffected()
	if err != nil {
		return 0, fmt.Errorf("count what was written: %w", err)
	}
	return int(n), nil
}

// errLost is a record that changed between reading and writing, although it was locked: somebody writes past us.
var errLost = errors.New("the record changed under its lock")

// Confirm adds a submission, or returns the one that stands.
func (s *Store) Confirm(ctx context.Context, want delegation.Submission) (delegation.Submission, error) {
	var got delegation.Submission
	err := s.transact(ctx, "confirm a submission", func(c *change) error {
		for range 2 { // once more if another process adds it in between
			have, err := c.submission(ctx, want.UID, s.dialect.ForShare)
			if err != nil {
				return err
			}
			if got, err = have.Confirm(want); err != nil || have.State != "" {
				return err
			}
			values, err := submissionValues(got)
			if err != nil {
				return err
			}
			if n, err := c.exec(ctx, addSubmission, values...); err != nil || n == 1 {
				return err
			}
		}
		return errLost
	})
	return got, err
}

// Observe notes how a submission's object was seen.
func (s *Store) Observe(ctx context.Context, uid string, o delegation.Observation) (delegation.Submission, error) {
	var got delegation.Submission
	err := s.transact(ctx, "observe a submission", func(c *change) error {
		have, err := c.submission(ctx, uid, s.dialect.ForUpdate)
		if err != nil {
			return err
		}
		if have.State == "" {
			return delegation.ErrNotFound
		}
		got = have.Observe(o)
		if got.Observed.Equal(have.Observed) {
			return nil
		}
		if err := got.Validate(); err != nil {
			return err
		}
		n, err := c.exec(ctx, setObserved, uid, got.Observed.Generation, moment(got.Observed.Since))
		if err == nil && n != 1 {
			err = errLost
		}
		return err
	})
	return got, err
}

// Put adds or changes a row.
func (s *Store) Put(ctx context.Context, want delegation.Row) (delegation.Row, error) {
	var got delegation.Row
	err := s.transact(ctx, "put a row", func(c *change) error {
		sub, err := c.submission(ctx, want.SubmissionUID, s.dialect.ForShare)
		if err != nil {
			return err
		}
		for range 2 {
			have, err := c.row(ctx, want.Name)
			if err != nil {
				return err
			}
			if got, err = have.Put(want, sub); err != nil || got.Rev == have.Rev {
				return err
			}
			if done, err := c.save(ctx, have, got); err != nil || done {
				return err
			}
		}
		return errLost
	})
	return got, err
}

// save writes what has become of a row; false if another process has added it in between.
func (c *change) save(ctx context.Context, have, got delegation.Row) (bool, error) {
	c.rows, c.ended = []string{got.Name}, got.State == delegation.Revoked
	if have.State == "" {
		n, err := c.exec(ctx, addRow, rowValues(got)...)
		return n == 1, err
	}
	n, err := c.exec(ctx, setRow, got.Name, have.Rev, got.Bound.Name, got.Bound.Value, got.NodeName, string(got.State), moment(got.ExpiresAt),
		moment(got.RevokedAt), string(got.Reason))
	if err == nil && n != 1 {
		err = errLost
	}
	return true, err
}

// End closes a submission.
func (s *Store) End(ctx context.Context, uid string, why delegation.Reason, at time.Time) (delegation.Submission, error) {
	var got delegation.Submission
	err := s.transact(ctx, "end a submission", func(c *change) error {
		have, err := c.submission(ctx, uid, s.dialect.ForUpdate)
		if err != nil {
			return err
		}
		if have.State == "" {
			return delegation.ErrNotFound
		}
		got = have.End(why, at)
		_, err = c.settle(ctx, have, got)
		return err
	})
	return got, err
}

// settle writes what has become of a submission, and says whether that is anything new.
func (c *change) settle(ctx context.Context, have, got delegation.Submission) (bool, error) {
	if have.State == got.State && have.RevokedAt.Equal(got.RevokedAt) {
		return false, nil
	}
	if err := got.Validate(); err != nil {
		return false, fmt.Errorf("end a submission: %w", err)
	}
	c.ended = true
	n, err := c.exec(ctx, setSubmission, got.UID, got.Submitter, string(got.State), moment(got.ClosedAt), moment(got.RevokedAt), string(got.Reason))
	if err == nil && n != 1 {
		err = errLost
	}
	return true, err
}
