package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"github.com/pressly/goose/v3"

	"github.com/lanyard-k8s/lanyard/delegation"
)

// schemaTable is where the migrations keep account.
const schemaTable = "schema_version"

// Migrate brings a database up to this program's schema. A newer one is refused, untouched.
func Migrate(ctx context.Context, d goose.Dialect, db *sql.DB, files fs.FS, opts ...goose.ProviderOption) error {
	if err := Check(ctx, db, files, tableExists(d)); err != nil && !errors.Is(err, delegation.ErrSchemaOlder) {
		return err
	}
	p, err := goose.NewProvider(d, db, files, append(opts, goose.WithTableName(schemaTable), goose.WithDisableGlobalRegistry(true))...)
	if err != nil {
		return fmt.Errorf("prepare the migrations: %w", err)
	}
	if _, err := p.Up(ctx); err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	return nil
}

// Check compares a database's schema with this program's, without writing anything: ErrSchemaOlder or ErrSchemaNewer. The error
// of a database that cannot answer is the driver's.
func Check(ctx context.Context, db *sql.DB, files fs.FS, exists string) error {
	want, err := newest(files)
	if err != nil {
		return err
	}
	var tables int
	if err := db.QueryRowContext(ctx, exists, schemaTable).Scan(&tables); err != nil {
		return fmt.Errorf("look for the schema: %w", err)
	}
	var have sql.NullInt64
	if tables > 0 {
		if err := db.QueryRowContext(ctx, "SELECT max(version_id) FROM "+schemaTable).Scan(&have); err != nil {
			return fmt.Errorf("read the schema's version: %w", err)
		}
	}
	switch {
	case have.Int64 < want:
		return fmt.Errorf("%w (it has version %d, the program %d)", delegation.ErrSchemaOlder, have.Int64, want)
	case have.Int64 > want:
		return fmt.Errorf("%w (it has version %d, the program %d)", delegation.ErrSchemaNewer, have.Int64, want)
	default:
		return nil
	}
}

// tableExists counts the tables of a name where the connection looks for tables.
func tableExists(d goose.Dialect) string {
	if d == goose.DialectSQLite3 {
		return SQLiteTables
	}
	return PostgresTables
}

// The questions that Check asks for a table of a name.
const (
	SQLiteTables   = `SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = $1`
	PostgresTables = `SELECT count(*) FROM pg_catalog.pg_class WHERE oid = to_regclass($1)`
)

// newest is the highest version among the migrations, whose files are named "00001_what.sql".
func newest(files fs.FS) (int64, error) {
	names, err := fs.Glob(files, "*.sql")
	if err != nil || len(names) == 0 {
		return 0, fmt.Errorf("list the migrations: %w", errors.Join(err, fs.ErrNotExist))
	}
	var highest int64
	for _, name := range names {
		number, _, _ := strings.Cut(path.Base(name), "_")
		v, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("list the migrations: %q has no number: %w", name, err)
		}
		highest = max(highest, v)
	}
	return highest, nil
}
