// Package sqlite keeps submissions and rows in one file, for an exchange that is one process. It is the default: nothing has to be
// run besides the exchange. What is acknowledged is on the disk (WAL, synchronous=FULL).
//
// The file's directory belongs to the exchange alone: mode 0700, no symbolic links, and a lock that a second process does
// not get. Who can write the file can give himself any identity.
package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net/url"

	"github.com/pressly/goose/v3"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/lanyard-k8s/lanyard/delegation"
	"github.com/lanyard-k8s/lanyard/delegation/internal/ledger"
)

//go:embed migrations/*.sql
var embedded embed.FS

// File is the database's name in its directory. SQLite puts "-wal" and "-shm" beside it.
const File = "delegation.db"

// readers is how many questions are answered at once; a row is read in some ten microseconds.
const readers = 4

// Store is the store in a directory.
type Store struct {
	*ledger.Store
	place *place
	write *sql.DB
}

// Open opens the database in a directory, which Migrate must have made. Its errors are those of package delegation:
// ErrLocked, ErrUnsafe, ErrSchemaOlder (also where there is no database), ErrSchemaNewer, ErrReadOnly, ErrCorrupt and ErrUnavailable.
func Open(ctx context.Context, dir string) (*Store, error) {
	p, err := enter(dir, false)
	if err != nil {
		return nil, fmt.Errorf("open the database: %w", err)
	}
	s, err := open(ctx, p)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open the database: %w", sorted(err)), p.leave())
	}
	return s, nil
}

func open(ctx context.Context, p *place) (*Store, error) {
	write, err := connect(ctx, p.file(), true)
	if err != nil {
		return nil, err
	}
	files, err := fs.Sub(embedded, "migrations")
	if err == nil {
		err = ledger.Check(ctx, write, files, ledger.SQLiteTables)
	}
	if err == nil {
		err = writable(ctx, write)
	}
	if err != nil {
		return nil, errors.Join(err, write.Close())
	}
	read, err := connect(ctx, p.file(), false)
	if err != nil {
		return nil, errors.Join(err, write.Close())
	}
	l, err := ledger.New(ctx, ledger.Dialect{Kind: kind, Prepare: true}, read, write)
	if err != nil {
		return nil, errors.Join(err, read.Close(), write.Close())
	}
	return &Store{Store: l, place: p, write: write}, nil
}

// Collect deletes and erases one batch. What was erased is then taken out of the journal as well, where pages stay as they were until
// they are written over; a reader can keep that from happening, and the next batch or Close makes up for it.
func (s *Store) Collect(ctx context.Context, c delegation.Collection) (delegation.Collected, error) {
	got, err := s.Store.Collect(ctx, c)
	if err == nil && got.Submitters+got.Submissions > 0 {
		_, _ = s.write.ExecContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)")
	}
	return got, err
}

// Close closes the database and then gives the lock up.
func (s *Store) Close() error { return errors.Join(s.Store.Close(), s.place.leave()) }

// Migrate makes the directory and the database, or brings an older one up to date. It takes the lock: the exchange is stopped
// meanwhile.
func Migrate(ctx context.Context, dir string) (err error) {
	p, err := enter(dir, true)
	if err != nil {
		return fmt.Errorf("migrate the database: %w", err)
	}
	defer func() { err = errors.Join(err, p.leave()) }()
	db, err := connect(ctx, p.file(), true)
	if err != nil {
		return fmt.Errorf("migrate the database: %w", sorted(err))
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	files, err := fs.Sub(embedded, "migrations")
	if err != nil {
		return fmt.Errorf("migrate the database: %w", err)
	}
	if err := ledger.Migrate(ctx, goose.DialectSQLite3, db, files); err != nil {
		return fmt.Errorf("migrate the database: %w", sorted(err))
	}
	return nil
}

// connect opens the file for the one writer or for the readers. A write takes its lock when it begins, so that it never has to
// be given up half way.
func connect(ctx context.Context, file string, write bool) (*sql.DB, error) {
	q := url.Values{"_pragma": {
		"busy_timeout(5000)", "journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(1)", "secure_delete(1)", "trusted_schema(0)",
	}}
	q.Set("mode", "rw") // never made here: the place makes it, with the right mode
	if write {
		q.Set("_txlock", "immediate")
	} else {
		q["_pragma"] = append(q["_pragma"], "query_only(1)")
	}
	db, err := sql.Open("sqlite", (&url.URL{Scheme: "file", Path: file, RawQuery: q.Encode()}).String())
	if err != nil {
		return nil, fmt.Errorf("open: %w", err)
	}
	conns := 1
	if !write {
		conns = readers
	}
	db.SetMaxOpenConns(conns)
	db.SetMaxIdleConns(conns)
	var mode string
	if err := db.QueryRowContext(ctx, "PRAGMA journal_mode").Scan(&mode); err != nil {
		return nil, errors.Join(fmt.Errorf("read the journal's mode: %w", err), db.Close())
	}
	if mode != "wal" {
		return nil, errors.Join(fmt.Errorf("%w: the journal's mode is %q; WAL needs a file system with shared memory", delegation.ErrUnsafe, mode), db.Close())
	}
	return db, nil
}

// writable takes and gives back the write lock, so that a read-only disk shows at the start.
func writable(ctx context.Context, db *sql.DB) error {
	if _, err := db.ExecContext(ctx, "UPDATE guard SET ended = ended WHERE id = 1"); err != nil {
		return fmt.Errorf("try to write: %w", err)
	}
	return nil
}

// kind finds the sentinel of an error of the driver.
func kind(err error) error {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return nil
	}
	switch e.Code() & 0xff { // the rest says more, and is in the text
	case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_FULL:
		return delegation.ErrReadOnly
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_SCHEMA:
		return delegation.ErrCorrupt
	case sqlite3.SQLITE_CONSTRAINT:
		return delegation.ErrInvalid
	default:
		return delegation.ErrUnavailable
	}
}

// sorted gives an error of opening its sentinel, unless it has one.
func sorted(err error) error {
	for _, known := range []error{
		delegation.ErrSchemaOlder, delegation.ErrSchemaNewer, delegation.ErrUnsafe, delegation.ErrLocked, delegation.ErrCorrupt, delegation.ErrUnavailable,
		delegation.ErrReadOnly, delegation.ErrInvalid,
	} {
		if errors.Is(err, known) {
			return err
		}
	}
	if k := kind(err); k != nil {
		return fmt.Errorf("%w: %w", k, err)
	}
	return fmt.Errorf("%w: %w", delegation.ErrUnavailable, err)
}
