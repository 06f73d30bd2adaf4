package ledger

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"github.com/lanyard-k8s/lanyard/delegation"
)

// moment writes a time as milliseconds since 1970; the zero time is NULL.
func moment(t time.Time) sql.NullInt64 {
	return sql.NullInt64{Int64: t.UnixMilli(), Valid: !t.IsZero()}
}

func fromMoment(n sql.NullInt64) time.Time {
	if !n.Valid {
		return time.Time{}
	}
	return time.UnixMilli(n.Int64).UTC()
}

// words writes a list as a JSON array; nil and empty are the same.
func words(list []string) (string, error) {
	if len(list) == 0 {
		return "[]", nil
	}
	b, err := json.Marshal(list)
	if err != nil {
		return "", fmt.Errorf("%w: %w", delegation.ErrInvalid, err)
	}
	return string(b), nil
}

func fromWords(text string) ([]string, error) {
	var list []string
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return nil, fmt.Errorf("%w: a list of words is none: %w", delegation.ErrCorrupt, err)
	}
	if len(list) == 0 {
		return nil, nil
	}
	return list, nil
}

// scanner is *sql.Row or *sql.Rows.
type scanner interface{ Scan(...any) error }

// rowFields takes a row apart as it is scanned.
type rowFields struct {
	row                       delegation.Row
	submission                sql.NullString
	created, expires, revoked sql.NullInt64
}

func (f *rowFields) into() []any {
	r := &f.row
	return []any{
		&r.Name, &r.Kind, &f.submission, &r.Bound.Name, &r.Bound.Value, &r.Namespace, &r.ServiceAccount, &r.NodeName, &r.ProofHash,
		&r.State, &r.Rev, &f.created, &f.expires, &f.revoked, &r.Reason,
	}
}

// read is the row, if it is one: a store returns no row that it would not take.
func (f *rowFields) read() (delegation.Row, error) {
	r := f.row
	r.SubmissionUID = f.submission.String
	r.CreatedAt, r.ExpiresAt, r.RevokedAt = fromMoment(f.created), fromMoment(f.expires), fromMoment(f.revoked)
	if err := r.Validate(); err != nil {
		return delegation.Row{}, fmt.Errorf("%w: row %q: %s", delegation.ErrCorrupt, r.Name, err.Error())
	}
	return r, nil
}

func rowValues(r delegation.Row) []any {
	return []any{
		r.Name, string(r.Kind), sql.NullString{String: r.SubmissionUID, Valid: r.SubmissionUID != ""}, r.Bound.Name, r.Bound.Value, r.Namespace,
		r.ServiceAccount, r.NodeName, string(r.ProofHash), string(r.State), r.Rev, moment(r.CreatedAt), moment(r.ExpiresAt), moment(r.RevokedAt),
		string(r.Reason),
	}
}

func scanRow(from scanner) (delegation.Row, error) {
	var f rowFields
	if err := from.Scan(f.into()...); err != nil {
		return delegation.Row{}, fmt.Errorf("read a row: %w", err)
	}
	return f.read()
}

// submissionFields takes a submission apart as it is scanned. All are nullable, for a row may have none.
type submissionFields struct {
	text                                               [11]sql.NullString
	confirmed, closed, revokedAt, generation, observed sql.NullInt64
}

func (f *submissionFields) into() []any {
	t := &f.text
	return []any{
		&t[0], &t[1], &t[2], &t[3], &t[4], &t[5], &t[6], &t[7], &t[8], &t[9], &f.confirmed, &f.closed, &f.revokedAt, &t[10],
		&f.generation, &f.observed,
	}
}

// read is the submission, zero if there is none.
func (f *submissionFields) read() (delegation.Submission, error) {
	t := func(i int) string { return f.text[i].String }
	if !f.text[0].Valid {
		return delegation.Submission{}, nil
	}
	audiences, err := fromWords(t(7))
	if err != nil {
		return delegation.Submission{}, err
	}
	scopes, err := fromWords(t(8))
	if err != nil {
		return delegation.Submission{}, err
	}
	s := delegation.Submission{
		UID: t(0), GroupKind: t(1), Cluster: t(2), Namespace: t(3), Name: t(4), Submitter: t(5), ViaUID: t(6),
		Audiences: audiences, Scopes: scopes, State: delegation.SubmissionState(t(9)), Reason: delegation.Reason(t(10)),
		ConfirmedAt: fromMoment(f.confirmed), ClosedAt: fromMoment(f.closed), RevokedAt: fromMoment(f.revokedAt),
		Observed: delegation.Observation{Generation: f.generation.Int64, Since: fromMoment(f.observed)},
	}
	if err := s.Validate(); err != nil {
		return delegation.Submission{}, fmt.Errorf("%w: submission %q: %s", delegation.ErrCorrupt, s.UID, err.Error())
	}
	return s, nil
}

func submissionValues(s delegation.Submission) ([]any, error) {
	audiences, err := words(s.Audiences)
	if err != nil {
		return nil, err
	}
	scopes, err := words(s.Scopes)
	if err != nil {
		return nil, err
	}
	return []any{
		s.UID, s.GroupKind, s.Cluster, s.Namespace, s.Name, s.Submitter, s.ViaUID, audiences, scopes, string(s.State),
		moment(s.ConfirmedAt), moment(s.ClosedAt), moment(s.RevokedAt), string(s.Reason),
		s.Observed.Generation, moment(s.Observed.Since),
	}, nil
}

func scanSubmission(from scanner) (delegation.Submission, error) {
	var f submissionFields
	if err := from.Scan(f.into()...); err != nil {
		return delegation.Submission{}, fmt.Errorf("read a submission: %w", err)
	}
	return f.read()
}

// scanAll reads every record of an answer.
func scanAll[T any](rows *sql.Rows, err error, scan func(scanner) (T, error)) ([]T, error) {
	if err != nil {
		return nil, fmt.Errorf("ask: %w", err)
	}
	defer func() { _ = rows.Close() }()
	var all []T
	for rows.Next() {
		one, err := scan(rows)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	return all, nil
}

func scanName(from scanner) (name string, err error) {
	if err := from.Scan(&name); err != nil {
		return "", fmt.Errorf("read a name: %w", err)
	}
	return name, nil
}
