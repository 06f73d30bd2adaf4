package sqlite

import (
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/lanyard-k8s/lanyard/delegation"
)

// TestKindsOfErrors makes the driver's errors happen, and looks at what they are taken for.
func TestKindsOfErrors(t *testing.T) {
	t.Parallel()
	const insert = `WITH RECURSIVE n(v) AS (SELECT 1 UNION ALL SELECT v + 1 FROM n WHERE v < 100) INSERT INTO submission (uid, group_kind, cluster, namespace, name, submitter, via_uid, audiences, scopes, state, confirmed_at, closed_at, revoked_at, reason) SELECT 'uid' || v, 'batch/Job', '', '', hex(zeroblob(4000)), 'alice', '', '[]', '[]', 'CONFIRMED', 1, NULL, NULL, '' FROM n`
	for name, tc := range map[string]struct {
		before, statement string
		want              error
	}{
		"read-only":            {`PRAGMA query_only = 1`, `UPDATE guard SET ended = 1`, delegation.ErrReadOnly},
		"a full disk":          {`PRAGMA max_page_count = 30`, insert, delegation.ErrReadOnly},
		"a broken constraint":  {`SELECT 1`, `INSERT INTO guard SELECT * FROM guard`, delegation.ErrInvalid},
		"anything else":        {`SELECT 1`, `SELECT * FROM nowhere`, delegation.ErrUnavailable},
		"a lock that is taken": {`PRAGMA busy_timeout = 0`, `BEGIN IMMEDIATE`, delegation.ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "db")
			if err := Migrate(t.Context(), dir); err != nil {
				t.Fatal(err)
			}
			db, err := connect(t.Context(), filepath.Join(dir, File), true)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = db.Close() }()
			if _, err := db.ExecContext(t.Context(), tc.before); err != nil {
				t.Fatal(err)
			}
			if name == "a lock that is taken" {
				defer taken(t, dir)()
			}
			_, err = db.ExecContext(t.Context(), tc.statement)
			if !errors.Is(kind(err), tc.want) || !errors.Is(sorted(err), tc.want) {
				t.Errorf("error is %v, taken for %v, want %v", err, kind(err), tc.want)
			}
		})
	}
}

// taken holds the write lock with another connection.
func taken(t *testing.T, dir string) func() {
	t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(dir, File)+"?_txlock=immediate")
	if err != nil {
		t.Fatal(err)
	}
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return func() { _ = errors.Join(tx.Rollback(), db.Close()) }
}

func TestFilesThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]error{
		syscall.EROFS: delegation.ErrReadOnly, syscall.ENOSPC: delegation.ErrReadOnly, syscall.EACCES: delegation.ErrReadOnly, syscall.EIO: delegation.ErrUnavailable,
	} {
		if got := lacking(&fs.PathError{Op: "open", Path: "x", Err: err}); !errors.Is(got, want) {
			t.Errorf("%v is taken for %v, want %v", err, got, want)
		}
	}
	if got := sorted(fmt.Errorf("x: %w", delegation.ErrSchemaNewer)); !errors.Is(got, delegation.ErrSchemaNewer) || errors.Is(got, delegation.ErrUnavailable) {
		t.Errorf("a known error became %v", got)
	}
}
