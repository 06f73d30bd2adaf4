package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/lanyard-k8s/lanyard/delegation"
)

// Get is a row and its submission, in one statement with the database's mark.
func (s *Store) Get(ctx context.Context, name string) (delegation.Standing, error) {
	var (
		row delegation.Standing
		f   rowFields
		of  submissionFields
		got delegation.Mark
	)
	before, err := s.witness.newest()
	if err != nil {
		return row, s.failure(ctx, "get a row", err)
	}
	into := append(append(f.into(), of.into()...), &got.Lineage, &got.Ended)
	if s.get != nil {
		err = s.get.QueryRowContext(ctx, name).Scan(into...)
	} else {
		err = s.read.QueryRowContext(ctx, getStanding, name).Scan(into...)
	}
	if errors.Is(err, sql.ErrNoRows) {
		return row, fmt.Errorf("get a row: %w", delegation.ErrNotFound)
	}
	if err == nil {
		err = s.witness.met(before, got)
	}
	if err == nil {
		if row.Row, err = f.read(); err == nil {
			row.Submission, err = of.read()
		}
	}
	if err != nil {
		return delegation.Standing{}, s.failure(ctx, "get a row", err)
	}
	return row, nil
}

// Submission is one submission.
func (s *Store) Submission(ctx context.Context, uid string) (delegation.Submission, error) {
	sub, err := scanSubmission(s.read.QueryRowContext(ctx, getSubmission, uid))
	if errors.Is(err, sql.ErrNoRows) {
		err = delegation.ErrNotFound
	}
	if err != nil {
		return delegation.Submission{}, s.failure(ctx, "get a submission", err)
	}
	return sub, nil
}

// Submissions lists submissions.
func (s *Store) Submissions(ctx context.Context, q delegation.SubmissionQuery) ([]delegation.Submission, error) {
	rows, err := s.read.QueryContext(ctx, listSubmissions, q.After, string(q.State), q.Submitter, page(q.Limit))
	all, err := scanAll(rows, err, scanSubmission)
	if err != nil {
		return nil, s.failure(ctx, "list submissions", err)
	}
	return all, nil
}

// Rows lists rows.
func (s *Store) Rows(ctx context.Context, q delegation.RowQuery) ([]delegation.Row, error) {
	rows, err := s.read.QueryContext(ctx, listRows, q.After, string(q.Kind), string(q.State), q.Submission, page(q.Limit))
	all, err := scanAll(rows, err, scanRow)
	if err != nil {
		return nil, s.failure(ctx, "list rows", err)
	}
	return all, nil
}

func page(limit int) int {
	if limit <= 0 || limit > delegation.MaxPage {
		return delegation.MaxPage
	}
	return limit
}
