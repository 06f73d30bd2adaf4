package postgres_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lanyard-k8s/lanyard/delegation"
	"github.com/lanyard-k8s/lanyard/delegation/delegationtest"
	"github.com/lanyard-k8s/lanyard/delegation/postgres"
)

func TestSuite(t *testing.T) {
	t.Parallel()
	delegationtest.Run(t, func(t *testing.T) delegation.Store { return open(t, shared.migrated(t)) })
}

// TestSuiteBehindAPooler runs without prepared statements, as a pooler in transaction mode demands.
func TestSuiteBehindAPooler(t *testing.T) {
	t.Parallel()
	delegationtest.Run(t, func(t *testing.T) delegation.Store {
		o := shared.migrated(t)
		o.Conn += "&default_query_exec_mode=exec"
		return open(t, o)
	})
}

func TestADatabaseOfTheFirstVersion(t *testing.T) {
	t.Parallel()
	name := shared.database(t)
	o := postgres.Options{Conn: shared.conn(name)}
	migrate := func() {
		if err := postgres.Migrate(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	migrate()
	delegationtest.Older(t, func() delegation.Store { return open(t, o) }, migrate, func(statements ...string) { shared.exec(t, name, statements...) })
}

func TestOneReplicaHearsOfTheOther(t *testing.T) {
	t.Parallel()
	o := shared.migrated(t)
	a, b := open(t, o), open(t, o)
	defer func() { _ = errors.Join(a.Close(), b.Close()) }()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := a.Confirm(ctx, delegationtest.Submission("j1")); err != nil {
		t.Fatal(err)
	}
	changes := b.Changes(ctx)
	for range 2 { // the empty change of the subscription, and that of the listener once it listens
		if c := <-changes; c != (delegation.Change{}) {
			t.Fatalf("heard of %+v before anything happened", c)
		}
	}
	row, err := a.Put(ctx, delegationtest.PodRow("j1", "p1"))
	if err != nil {
		t.Fatal(err)
	}
	if c := <-changes; c.Row != row.Name {
		t.Errorf("heard of %q, want the row that the other replica has put", c.Row)
	}
	if got, err := b.Get(ctx, row.Name); err != nil || got.Row != row {
		t.Errorf("got %+v, %v", got, err)
	}
	if _, err := a.Revoke(ctx, delegation.Revocation{Submitter: "alice", Reason: delegation.SubmitterRevoked, At: delegationtest.At(1)}); err != nil {
		t.Fatal(err)
	}
	if got, err := b.Get(ctx, row.Name); err != nil || got.Row.State != delegation.Revoked {
		t.Errorf("the next question at the other replica: %s, %v; want it revoked", got.Row.State, err)
	}
	if c := <-changes; c.Row != row.Name {
		t.Errorf("heard of %q, want the row that the other replica has revoked", c.Row)
	}
}

// TestALostListenerSaysSo ends the listening connection: an empty change tells that something may have been missed, and the next
// changes are heard again.
func TestALostListenerSaysSo(t *testing.T) {
	t.Parallel()
	name := shared.database(t)
	o := postgres.Options{Conn: shared.conn(name)}
	if err := postgres.Migrate(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	s := open(t, o)
	defer func() { _ = s.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := s.Confirm(ctx, delegationtest.Submission("j1")); err != nil {
		t.Fatal(err)
	}
	changes := s.Changes(ctx)
	<-changes
	<-changes
	shared.exec(t, name, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%'`)
	if c := <-changes; c != (delegation.Change{}) {
		t.Errorf("heard of %+v, want the empty change", c)
	}
	row, err := s.Put(ctx, delegationtest.PodRow("j1", "p1"))
	if err != nil {
		t.Fatal(err)
	}
	if c := <-changes; c.Row != row.Name {
		t.Errorf("heard of %q, want the row", c.Row)
	}
}

func TestManyMigrateAtOnce(t *testing.T) {
	t.Parallel()
	o := postgres.Options{Conn: shared.conn(shared.database(t))}
	var group sync.WaitGroup
	for range 3 {
		group.Go(func() {
			if err := postgres.Migrate(t.Context(), o); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if err := open(t, o).Close(); err != nil {
		t.Error(err)
	}
}

func TestADatabaseThatCannotServeIsRefused(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		statements []string
		want       error
		says       string
	}{
		"never migrated":        {[]string{`DROP TABLE schema_version`}, delegation.ErrSchemaOlder, "exchange migrate"},
		"older":                 {[]string{`DELETE FROM schema_version WHERE version_id > 0`}, delegation.ErrSchemaOlder, "version 0"},
		"newer":                 {[]string{`INSERT INTO schema_version (version_id, is_applied) VALUES (99, true)`}, delegation.ErrSchemaNewer, "version 99"},
		"read-only":             {[]string{`ALTER DATABASE %s SET default_transaction_read_only = on`}, delegation.ErrReadOnly, "read only"},
		"without the right":     {[]string{`REVOKE ALL ON ALL TABLES IN SCHEMA public FROM PUBLIC`, `GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader`}, delegation.ErrReadOnly, "42501"},
		"without its own table": {[]string{`DROP TABLE guard`}, delegation.ErrCorrupt, "42P01"},
		"taking no connections": {[]string{`ALTER DATABASE %s CONNECTION LIMIT 0`}, delegation.ErrUnavailable, "unavailable"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := shared.database(t)
			o := postgres.Options{Conn: shared.conn(db)}
			if err := postgres.Migrate(t.Context(), o); err != nil {
				t.Fatal(err)
			}
			if name == "without the right" || name == "taking no connections" {
				shared.exec(t, db, `DO $$ BEGIN CREATE ROLE reader LOGIN; EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$`)
				o.Conn = strings.Replace(o.Conn, "user=lanyard", "user=reader", 1)
			}
			for _, statement := range tc.statements {
				shared.exec(t, db, strings.ReplaceAll(statement, "%s", db))
			}
			s, err := postgres.Open(t.Context(), o)
			if err == nil {
				_ = s.Close()
			}
			if !errors.Is(err, tc.want) || !strings.Contains(fmt.Sprint(err), tc.says) {
				t.Errorf("error is %v, want %v saying %q", err, tc.want, tc.says)
			}
			if name == "newer" {
				if err := postgres.Migrate(t.Context(), o); !errors.Is(err, delegation.ErrSchemaNewer) {
					t.Errorf("migrate: error is %v, want ErrSchemaNewer", err)
				}
			}
		})
	}
}

func TestRevocationIsFinalForOtherToolsToo(t *testing.T) {
	t.Parallel()
	o := shared.migrated(t)
	s := open(t, o)
	defer func() { _ = s.Close() }()
	_, err := s.Confirm(t.Context(), delegationtest.Submission("j1"))
	if err == nil {
		_, err = s.Put(t.Context(), delegationtest.PodRow("j1", "p1"))
	}
	if err == nil {
		_, err = s.Revoke(t.Context(), delegation.Revocation{Submission: "j1", Reason: delegation.SubmissionRevoked, At: delegationtest.At(1)})
	}
	if err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("pgx", o.Conn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	for _, statement := range []string{
		`UPDATE delegation SET state = 'ACTIVE', revoked_at = NULL, reason = ''`,
		`UPDATE submission SET state = 'CONFIRMED', closed_at = NULL, revoked_at = NULL, reason = ''`,
		`UPDATE submission SET revoked_at = NULL`,
		`DELETE FROM submission`,
		`INSERT INTO guard SELECT 2, epoch, policies, lineage, ended FROM guard`,
	} {
		if _, err := db.ExecContext(t.Context(), statement); err == nil {
			t.Errorf("%s: went through", statement)
		}
	}
}

func BenchmarkGet(b *testing.B) {
	s := open(b, shared.migrated(b))
	defer func() { _ = s.Close() }()
	if _, err := s.Confirm(context.Background(), delegationtest.Submission("j1")); err != nil {
		b.Fatal(err)
	}
	row, err := s.Put(context.Background(), delegationtest.PodRow("j1", "p1"))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Get(context.Background(), row.Name); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkSize reports what a submission with one row takes in bytes of the database, indexes included.
func BenchmarkSize(b *testing.B) {
	const many = 2000
	for b.Loop() {
		o := shared.migrated(b)
		s := open(b, o)
		db, err := sql.Open("pgx", o.Conn)
		if err != nil {
			b.Fatal(err)
		}
		size := func() (n int64) {
			if err := db.QueryRow(`SELECT pg_total_relation_size('submission') + pg_total_relation_size('delegation')`).Scan(&n); err != nil {
				b.Fatal(err)
			}
			return n
		}
		empty := size()
		for i := range many {
			uid := fmt.Sprintf("6a1f9cde-7d4c-4f6f-9d3e-%012d", i)
			_, err := s.Confirm(context.Background(), delegationtest.Submission(uid))
			if err == nil {
				_, err = s.Put(context.Background(), delegationtest.PodRow(uid, fmt.Sprintf("0b1c2d3e-4f5a-6b7c-8d9e-%012d", i)))
			}
			if err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(size()-empty)/many, "B/job-and-pod")
		b.ReportMetric(0, "ns/op")
		_, _ = db.Close(), s.Close()
	}
}
