package delegationtest

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/lanyard-k8s/lanyard/delegation"
)

// Submission is one submission.
func (m *Memory) Submission(ctx context.Context, uid string) (delegation.Submission, error) {
	leave, err := m.enter(ctx)
	if err != nil {
		return delegation.Submission{}, err
	}
	defer leave()
	s, ok := m.submissions[uid]
	if !ok {
		return delegation.Submission{}, delegation.ErrNotFound
	}
	return s, nil
}

// Submissions lists submissions.
func (m *Memory) Submissions(ctx context.Context, q delegation.SubmissionQuery) ([]delegation.Submission, error) {
	leave, err := m.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	return selected(m.submissions, q.After, q.Limit, func(s delegation.Submission) bool {
		return (q.State == "" || s.State == q.State) && (q.Submitter == "" || s.Submitter == q.Submitter)
	}), nil
}

// Rows lists rows.
func (m *Memory) Rows(ctx context.Context, q delegation.RowQuery) ([]delegation.Row, error) {
	leave, err := m.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	return selected(m.rows, q.After, q.Limit, func(r delegation.Row) bool {
		return (q.Kind == "" || r.Kind == q.Kind) && (q.State == "" || r.State == q.State) && (q.Submission == "" || r.SubmissionUID == q.Submission)
	}), nil
}

func selected[T any](all map[string]T, after string, limit int, which func(T) bool) []T {
	var page []T
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if key > after && which(all[key]) && len(page) < pageLength(limit) {
			page = append(page, all[key])
		}
	}
	return page
}

func pageLength(limit int) int {
	if limit <= 0 {
		return delegation.MaxPage
	}
	return min(limit, delegation.MaxPage)
}

// Collect deletes and erases one batch.
func (m *Memory) Collect(ctx context.Context, c delegation.Collection) (got delegation.Collected, err error) {
	leave, err := m.enter(ctx)
	if err != nil {
		return got, err
	}
	defer leave()
	left := map[string]int{} // rows by submission, the unrevoked counted a thousandfold
	for _, r := range oldest(m.rows, func(r delegation.Row) time.Time { return r.RevokedAt }) {
		closed := r.SubmissionUID == "" || m.submissions[r.SubmissionUID].State == delegation.Closed
		switch {
		case r.State != delegation.Revoked:
			left[r.SubmissionUID] += 1 << 20
		case r.RevokedAt.Before(c.Tombstones) && (r.Reason.Lasting() || closed) && got.Rows < pageLength(c.Limit):
			delete(m.rows, r.Name)
			got.Rows++
			if r.Bound.Value != "" && !r.Reason.Lasting() {
				got.Undone = append(got.Undone, r.Bound.Value)
			}
		default:
			left[r.SubmissionUID]++
		}
	}
	for _, s := range oldest(m.submissions, func(s delegation.Submission) time.Time { return s.ClosedAt }) {
		due := s.State == delegation.Closed && s.ClosedAt.Before(c.Submitters)
		if due && s.Submitter != "" && left[s.UID] < 1<<20 && got.Submitters < pageLength(c.Limit) {
			m.submissions[s.UID] = s.Erase()
			got.Submitters++
		}
		if due && s.Reason.Lasting() && left[s.UID] == 0 && got.Submissions < pageLength(c.Limit) {
			delete(m.submissions, s.UID)
			got.Submissions++
		}
	}
	return got, nil
}

func oldest[T any](all map[string]T, when func(T) time.Time) []T {
	return slices.SortedFunc(maps.Values(all), func(a, b T) int {
		return when(a).Compare(when(b))
	})
}

// Guard is what was last saved.
func (m *Memory) Guard(ctx context.Context) (delegation.Guard, error) {
	leave, err := m.enter(ctx)
	if err != nil {
		return delegation.Guard{}, err
	}
	defer leave()
	return m.guard, nil
}

// Advance saves the guard.
func (m *Memory) Advance(ctx context.Context, g delegation.Guard) (delegation.Guard, error) {
	leave, err := m.enter(ctx)
	if err != nil {
		return delegation.Guard{}, err
	}
	defer leave()
	m.guard = m.guard.Advance(g)
	return m.guard, nil
}

// AcceptRestore revokes everything that is open or live.
func (m *Memory) AcceptRestore(ctx context.Context, seen delegation.Mark, at time.Time) (delegation.Guard, error) {
	leave, err := m.enter(ctx)
	if err != nil {
		return delegation.Guard{}, err
	}
	defer leave()
	mark := m.guard.Mark
	for uid, s := range m.submissions {
		if s.State == delegation.Confirmed {
			m.submissions[uid] = s.Revoke(delegation.Restored, at)
		}
	}
	m.revokeRows(delegation.Revocation{Reason: delegation.Restored, At: at}, &delegation.Ended{}, func(delegation.Row) bool { return true })
	m.guard = m.guard.Advance(delegation.Guard{Epoch: at})
	m.guard.Mark = mark.After(seen, mark.Lineage+"+")
	return m.guard, nil
}
