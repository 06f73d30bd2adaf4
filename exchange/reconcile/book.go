package reconcile

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/lanyard-k8s/lanyard/delegation"
)

// book is which pods have rows that live, by UID. A pod that is gone cannot be asked for the account that its row is named by.
type book struct {
	mu   sync.Mutex
	rows map[string]entry
}

// entry is what is kept of a row.
type entry struct {
	name       string
	submission string
	namespace  string
	expires    time.Time
}

// load begins with the rows of the store.
func (b *book) load(ctx context.Context, store delegation.Lister) error {
	rows := map[string]entry{}
	for _, state := range []delegation.RowState{delegation.Pending, delegation.Active} {
		for after := ""; ; {
			page, err := store.Rows(ctx, delegation.RowQuery{Kind: delegation.Pod, State: state, After: after, Limit: delegation.MaxPage})
			if err != nil {
				return fmt.Errorf("list the rows: %w", err)
			}
			for _, row := range page {
				rows[row.Bound.Value], after = entryOf(row), row.Name
			}
			if len(page) < delegation.MaxPage {
				break
			}
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rows = rows
	return nil
}

func entryOf(row delegation.Row) entry {
	return entry{name: row.Name, submission: row.SubmissionUID, namespace: row.Namespace, expires: row.ExpiresAt}
}

func (b *book) note(row delegation.Row) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rows[row.Bound.Value] = entryOf(row)
}

func (b *book) forget(uid string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.rows, uid)
}

func (b *book) find(uid string) (entry, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e, ok := b.rows[uid]
	return e, ok
}

// each calls f for a copy of every entry.
func (b *book) all() map[string]entry {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := make(map[string]entry, len(b.rows))
	for uid, e := range b.rows {
		all[uid] = e
	}
	return all
}
