package ledger

import (
	"context"
	"fmt"

	"github.com/lanyard-k8s/lanyard/delegation"
)

// Revoke ends rows and submissions in one transaction.
func (s *Store) Revoke(ctx context.Context, r delegation.Revocation) (delegation.Ended, error) {
	r.At = delegation.Moment(r.At)
	if err := r.Validate(); err != nil {
		return delegation.Ended{}, fmt.Errorf("revoke: %w", err)
	}
	var ended delegation.Ended
	err := s.transact(ctx, "revoke", func(c *change) (err error) {
		switch {
		case r.Row != "":
			ended, err = c.revokeRow(ctx, r)
		case r.Submission != "":
			ended, err = c.revokeSubmission(ctx, r)
		default:
			ended, err = c.revokeSubmitter(ctx, r)
		}
		return err
	})
	if err != nil {
		return delegation.Ended{}, err
	}
	return ended, nil
}

func (c *change) revokeRow(ctx context.Context, r delegation.Revocation) (delegation.Ended, error) {
	have, err := c.row(ctx, r.Row)
	if err != nil {
		return delegation.Ended{}, err
	}
	if have.State == "" {
		return delegation.Ended{}, delegation.ErrNotFound
	}
	got := have.Revoke(r.Reason, r.At)
	if got.Rev == have.Rev {
		return delegation.Ended{}, nil
	}
	_, err = c.save(ctx, have, got)
	return delegation.Ended{Rows: 1}, err
}

func (c *change) revokeSubmission(ctx context.Context, r delegation.Revocation) (delegation.Ended, error) {
	have, err := c.submission(ctx, r.Submission, c.s.dialect.ForUpdate)
	if err != nil {
		return delegation.Ended{}, err
	}
	if have.State == "" {
		return delegation.Ended{}, delegation.ErrNotFound
	}
	return c.revokeAll(ctx, r, have)
}

func (c *change) revokeSubmitter(ctx context.Context, r delegation.Revocation) (delegation.Ended, error) {
	rows, err := c.QueryContext(ctx, submissionsOf+c.s.dialect.ForUpdate, r.Submitter)
	subs, err := scanAll(rows, err, scanSubmission)
	if err != nil {
		return delegation.Ended{}, err
	}
	return c.revokeAll(ctx, r, subs...)
}

// revokeAll revokes submissions that are locked, and every row of theirs.
func (c *change) revokeAll(ctx context.Context, r delegation.Revocation, subs ...delegation.Submission) (delegation.Ended, error) {
	var ended delegation.Ended
	for _, have := range subs {
		changed, err := c.settle(ctx, have, have.Revoke(r.Reason, r.At))
		if err != nil {
			return ended, err
		}
		if changed {
			ended.Submissions++
		}
		rows, err := c.QueryContext(ctx, revokeRowsOf, have.UID, string(r.Reason), moment(r.At))
		names, err := scanAll(rows, err, scanName)
		if err != nil {
			return ended, err
		}
		ended.Rows += len(names)
		c.rows, c.ended = append(c.rows, names...), c.ended || len(names) > 0
	}
	return ended, nil
}
