package sqlite_test

import (
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	driver "modernc.org/sqlite"

	"github.com/lanyard-k8s/lanyard/delegation/delegationtest"
	"github.com/lanyard-k8s/lanyard/delegation/sqlite"
)

// TestADatabaseThatIsRestoredUnderAStore holds the store to delegationtest with SQLite's own copying and restoring, which is what the
// shell's ".backup" and ".restore" do.
func TestADatabaseThatIsRestoredUnderAStore(t *testing.T) {
	t.Parallel()
	delegationtest.RunRestores(t, func(t *testing.T) delegationtest.Restored {
		dir := migrated(t)
		file, copied := filepath.Join(dir, sqlite.File), filepath.Join(t.TempDir(), "copy")
		return delegationtest.Restored{
			Store:   open(t, dir),
			Copy:    func(t *testing.T) { copyOver(t, file, copied) },
			Restore: func(t *testing.T) { copyOver(t, copied, file) },
		}
	})
}

// copyOver makes one database what another is, page by page.
func copyOver(t *testing.T, from, to string) {
	t.Helper()
	if f, err := os.OpenFile(to, os.O_CREATE|os.O_RDWR, 0o600); err != nil {
		t.Fatal(err)
	} else if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", to+"?_pragma=busy_timeout(5000)")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	err = conn.Raw(func(c any) error {
		restorer, ok := c.(interface {
			NewRestore(string) (*driver.Backup, error)
		})
		if !ok {
			return fmt.Errorf("%T cannot restore", c)
		}
		b, err := restorer.NewRestore(from)
		if err != nil {
			return err
		}
		for more := true; more && err == nil; {
			more, err = b.Step(-1)
		}
		if done := b.Finish(); err == nil {
			err = done
		}
		return err
	})
	if err != nil {
		t.Fatalf("copy %s over %s: %v", from, to, err)
	}
}
