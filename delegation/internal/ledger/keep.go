package ledger

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"github.com/lanyard-k8s/lanyard/delegation"
)

// Collect deletes and erases one batch.
func (s *Store) Collect(ctx context.Context, q delegation.Collection) (delegation.Collected, error) {
	var got delegation.Collected
	err := s.transact(ctx, "collect", func(c *change) error {
		got = delegation.Collected{}
		if err := c.collectRows(ctx, q, &got); err != nil {
			return err
		}
		for _, step := range []struct {
			count     *int
			statement string
			before    time.Time
		}{
			{&got.Submitters, eraseSubmitters, q.Submitters},
			{&got.Submissions, collectSubmissions(), q.Submitters},
		} {
			if step.before.IsZero() {
				continue
			}
			n, err := c.exec(ctx, step.statement, moment(step.before), page(q.Limit))
			if err != nil {
				return err
			}
			*step.count = n
		}
		return nil
	})
	return got, err
}

// collectRows deletes tombstones, and notes what they were bound to where their reason may be undone by that.
func (c *change) collectRows(ctx context.Context, q delegation.Collection, got *delegation.Collected) error {
	if q.Tombstones.IsZero() {
		return nil
	}
	rows, err := c.QueryContext(ctx, collectRows(), moment(q.Tombstones), page(q.Limit))
	deleted, err := scanAll(rows, err, func(from scanner) (r delegation.Row, err error) {
		return r, from.Scan(&r.Bound.Value, &r.Reason)
	})
	if err != nil {
		return err
	}
	got.Rows = len(deleted)
	for _, r := range deleted {
		if r.Bound.Value != "" && !r.Reason.Lasting() {
			got.Undone = append(got.Undone, r.Bound.Value)
		}
	}
	return nil
}

// Guard is what was last saved.
func (s *Store) Guard(ctx context.Context) (delegation.Guard, error) {
	before, err := s.witness.newest()
	if err != nil {
		return delegation.Guard{}, s.failure(ctx, "read the guard", err)
	}
	g, err := scanGuard(s.read.QueryRowContext(ctx, getGuard))
	if err == nil {
		err = s.witness.met(before, g.Mark)
	}
	if err != nil {
		return delegation.Guard{}, s.failure(ctx, "read the guard", err)
	}
	return g, nil
}

// Advance saves the guard.
func (s *Store) Advance(ctx context.Context, want delegation.Guard) (delegation.Guard, error) {
	var got delegation.Guard
	err := s.transact(ctx, "save the guard", func(c *change) error {
		have, err := c.guard(ctx)
		if err != nil {
			return err
		}
		got = have.Advance(want)
		return c.saveGuard(ctx, got)
	})
	return got, err
}

// AcceptRestore revokes everything that is open or live and moves epoch and mark.
func (s *Store) AcceptRestore(ctx context.Context, seen delegation.Mark, at time.Time) (delegation.Guard, error) {
	var got delegation.Guard
	at = delegation.Moment(at)
	s.witness.forget()
	err := s.transact(ctx, "accept a restored database", func(c *change) error {
		if _, err := c.exec(ctx, closeEvery, moment(at), string(delegation.Restored)); err != nil {
			return err
		}
		rows, err := c.QueryContext(ctx, revokeEvery, moment(at), string(delegation.Restored))
		if c.rows, err = scanAll(rows, err, scanName); err != nil {
			return err
		}
		have, err := c.guard(ctx)
		if err != nil {
			return err
		}
		got = have.Advance(delegation.Guard{Epoch: at})
		got.Mark = have.Mark.After(seen, rand.Text())
		return c.saveGuard(ctx, got)
	})
	if err == nil {
		err = s.Told(got.Mark)
	}
	return got, err
}

func (c *change) guard(ctx context.Context) (delegation.Guard, error) {
	return scanGuard(c.QueryRowContext(ctx, getGuard+c.s.dialect.ForUpdate))
}

func (c *change) saveGuard(ctx context.Context, g delegation.Guard) error {
	policies, err := json.Marshal(g.Policies)
	if err != nil {
		return fmt.Errorf("%w: %w", delegation.ErrInvalid, err)
	}
	n, err := c.exec(ctx, setGuard, moment(g.Epoch), string(policies), g.Mark.Lineage, g.Mark.Ended)
	if err == nil && n != 1 {
		err = delegation.ErrCorrupt
	}
	return err
}

func scanGuard(from scanner) (delegation.Guard, error) {
	var (
		g        delegation.Guard
		epoch    sql.NullInt64
		policies string
	)
	if err := from.Scan(&epoch, &policies, &g.Mark.Lineage, &g.Mark.Ended); err != nil {
		return g, fmt.Errorf("read the guard: %w", err)
	}
	g.Epoch = fromMoment(epoch)
	if err := json.Unmarshal([]byte(policies), &g.Policies); err != nil {
		return g, fmt.Errorf("%w: the policies: %w", delegation.ErrCorrupt, err)
	}
	return g, nil
}
