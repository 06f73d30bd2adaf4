package postgres

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/lanyard-k8s/lanyard/delegation"
	"github.com/lanyard-k8s/lanyard/delegation/internal/ledger"
)

// channel is where rows that changed are named. The database delivers when the transaction is committed.
const channel = "lanyard_delegation"

// mostNamed is how many rows one transaction names; beyond it says that there were many.
const mostNamed = 256

// announce names the changed rows to every replica, this one among them.
func announce(ctx context.Context, tx *sql.Tx, rows []string) error {
	if len(rows) > mostNamed {
		rows = []string{""}
	}
	for _, name := range rows {
		if _, err := tx.ExecContext(ctx, "SELECT pg_notify($1, $2)", channel, name); err != nil {
			return fmt.Errorf("notify: %w", err)
		}
	}
	return nil
}

// listener keeps one connection that hears of changes, from the first subscription on.
type listener struct {
	config *pgx.ConnConfig
	hub    *ledger.Hub
	start  sync.Once
	stop   context.CancelFunc
	ctx    context.Context
	done   sync.WaitGroup
}

func listen(config *pgx.ConnConfig, hub *ledger.Hub) *listener {
	l := &listener{config: config, hub: hub}
	l.ctx, l.stop = context.WithCancel(context.Background()) // it lives as long as the store, not as any call
	return l
}

func (l *listener) close() {
	l.stop()
	l.done.Wait()
}

// Changes subscribes; see delegation.Notifier. Who subscribes first is told when the database is listened to.
func (s *Store) Changes(ctx context.Context) <-chan delegation.Change {
	changes := s.Store.Changes(ctx)
	s.listener.start.Do(func() { s.listener.done.Go(s.listener.run) })
	return changes
}

// run listens, and connects anew after a pause where the connection is lost.
func (l *listener) run() {
	const shortest, longest = 100 * time.Millisecond, 5 * time.Second
	pause := shortest
	for l.ctx.Err() == nil {
		if l.hear() {
			pause = shortest
		}
		select {
		case <-l.ctx.Done():
		case <-time.After(pause):
		}
		pause = min(2*pause, longest)
	}
}

// hear passes on what is named until the connection ends; true if there was one. What happened before it listened was missed.
func (l *listener) hear() bool {
	conn, err := pgx.ConnectConfig(l.ctx, l.config)
	if err != nil {
		return false // the store's own questions say what is wrong with the database
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(l.ctx), time.Second)
		defer cancel()
		_ = conn.Close(ctx)
	}()
	if _, err := conn.Exec(l.ctx, "LISTEN "+channel); err != nil {
		return false
	}
	l.hub.Tell("")
	for {
		n, err := conn.WaitForNotification(l.ctx)
		if err != nil {
			return true
		}
		l.hub.Tell(n.Payload)
	}
}
