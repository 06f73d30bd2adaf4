// Package delegationtest holds every delegation.Store to the same behaviour, and has one in memory that says most plainly what that
// behaviour is: a fake for the tests of whoever uses a store, and the model that the suite compares the real ones with.
package delegationtest

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/lanyard-k8s/lanyard/delegation"
	"github.com/lanyard-k8s/lanyard/delegation/internal/ledger"
)

// Memory is a store that forgets everything with the process. The zero Memory is ready.
type Memory struct {
	ledger.Hub
	// Fail is asked before every operation; its error is the answer.
	Fail func() error

	mu          sync.Mutex
	submissions map[string]delegation.Submission
	rows        map[string]delegation.Row
	guard       delegation.Guard
}

// Close ends the subscriptions.
func (m *Memory) Close() error {
	m.Hub.Close()
	return nil
}

// enter begins an operation, which ends with the returned function.
func (m *Memory) enter(ctx context.Context) (func(), error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("%w: %w", delegation.ErrUnavailable, err)
	}
	if m.Fail != nil {
		if err := m.Fail(); err != nil {
			return nil, err
		}
	}
	m.mu.Lock()
	if m.rows == nil {
		m.rows, m.submissions = map[string]delegation.Row{}, map[string]delegation.Submission{}
		m.guard.Mark.Lineage = "memory"
	}
	return m.mu.Unlock, nil
}

// Get is a row and its submission.
func (m *Memory) Get(ctx context.Context, name string) (delegation.Standing, error) {
	leave, err := m.enter(ctx)
	if err != nil {
		return delegation.Standing{}, err
	}
	defer leave()
	r, ok := m.rows[name]
	if !ok {
		return delegation.Standing{}, delegation.ErrNotFound
	}
	return delegation.Standing{Row: r, Submission: m.submissions[r.SubmissionUID]}, nil
}

// Confirm adds a submission.
func (m *Memory) Confirm(ctx context.Context, want delegation.Submission) (delegation.Submission, error) {
	leave, err := m.enter(ctx)
	if err != nil {
		return delegation.Submission{}, err
	}
	defer leave()
	got, err := m.submissions[want.UID].Confirm(want)
	if err == nil {
		m.submissions[want.UID] = got
	}
	return got, err
}

// Observe notes how an object was seen.
func (m *Memory) Observe(ctx context.Context, uid string, o delegation.Observation) (delegation.Submission, error) {
	leave, err := m.enter(ctx)
	if err != nil {
		return delegation.Submission{}, err
	}
	defer leave()
	have, ok := m.submissions[uid]
	if !ok {
		return delegation.Submission{}, delegation.ErrNotFound
	}
	got := have.Observe(o)
	if err := got.Validate(); err != nil {
		return have, err
	}
	m.submissions[uid] = got
	return got, nil
}

// Put adds or changes a row.
func (m *Memory) Put(ctx context.Context, want delegation.Row) (delegation.Row, error) {
	leave, err := m.enter(ctx)
	if err != nil {
		return delegation.Row{}, err
	}
	defer leave()
	have := m.rows[want.Name]
	got, err := have.Put(want, m.submissions[want.SubmissionUID])
	if err == nil && got.Rev != have.Rev {
		m.save(got)
	}
	return got, err
}

func (m *Memory) save(r delegation.Row) {
	m.rows[r.Name] = r
	if r.State == delegation.Revoked {
		m.guard.Mark.Ended++
	}
	m.Tell(r.Name)
}

// End closes a submission.
func (m *Memory) End(ctx context.Context, uid string, why delegation.Reason, at time.Time) (delegation.Submission, error) {
	leave, err := m.enter(ctx)
	if err != nil {
		return delegation.Submission{}, err
	}
	defer leave()
	have, ok := m.submissions[uid]
	if !ok {
		return delegation.Submission{}, delegation.ErrNotFound
	}
	got := have.End(why, at)
	if err := got.Validate(); err != nil {
		return have, err
	}
	if got.State != have.State {
		m.guard.Mark.Ended++
	}
	m.submissions[uid] = got
	return got, nil
}

// Revoke ends rows and submissions. The mark moves by one, whatever their number.
func (m *Memory) Revoke(ctx context.Context, r delegation.Revocation) (ended delegation.Ended, err error) {
	leave, err := m.enter(ctx)
	if err != nil {
		return ended, err
	}
	defer leave()
	if err := r.Validate(); err != nil {
		return ended, err
	}
	_, row := m.rows[r.Row]
	_, submission := m.submissions[r.Submission]
	if !row && !submission && r.Submitter == "" {
		return ended, delegation.ErrNotFound
	}
	mark := m.guard.Mark.Ended
	for uid, s := range m.submissions {
		if uid == r.Submission || s.Submitter == r.Submitter && r.Submitter != "" {
			m.revokeRows(r, &ended, func(row delegation.Row) bool { return row.SubmissionUID == uid })
			if s.RevokedAt.IsZero() {
				ended.Submissions++
			}
			m.submissions[uid] = s.Revoke(r.Reason, r.At)
		}
	}
	m.revokeRows(r, &ended, func(row delegation.Row) bool { return row.Name == r.Row })
	m.guard.Mark.Ended = mark
	if ended != (delegation.Ended{}) {
		m.guard.Mark.Ended++
	}
	return ended, nil
}

func (m *Memory) revokeRows(r delegation.Revocation, ended *delegation.Ended, which func(delegation.Row) bool) {
	for _, have := range m.rows {
		if got := have.Revoke(r.Reason, r.At); which(have) && got.Rev != have.Rev {
			m.save(got)
			ended.Rows++
		}
	}
}
