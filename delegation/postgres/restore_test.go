package postgres_test

import (
	"bytes"
	"testing"

	"github.com/lanyard-k8s/lanyard/delegation/delegationtest"
	"github.com/lanyard-k8s/lanyard/delegation/postgres"
)

// TestADatabaseThatIsRestoredUnderAStore holds the store to delegationtest with pg_dump, whose copy psql plays back into the database.
func TestADatabaseThatIsRestoredUnderAStore(t *testing.T) {
	t.Parallel()
	delegationtest.RunRestores(t, func(t *testing.T) delegationtest.Restored {
		name := shared.database(t)
		o := postgres.Options{Conn: shared.conn(name)}
		must(t, postgres.Migrate(t.Context(), o))
		var copied []byte
		return delegationtest.Restored{
			Store: open(t, o),
			Copy: func(t *testing.T) {
				out, err := shared.command("pg_dump", "--clean", "--if-exists", shared.conn(name)).Output()
				must(t, err)
				copied = out
			},
			Restore: func(t *testing.T) {
				cmd := shared.command("psql", "-q", "-v", "ON_ERROR_STOP=1", "--single-transaction", shared.conn(name))
				cmd.Stdin = bytes.NewReader(copied)
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Fatalf("restore: %v\n%s", err, out)
				}
			},
		}
	})
}
