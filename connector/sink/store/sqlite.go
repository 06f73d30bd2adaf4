package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"

	"github.com/pressly/goose/v3"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/lanyard-k8s/lanyard/connector/nodebinding"
	"github.com/lanyard-k8s/lanyard/connector/sink"
)

// OpenSQLite opens the file and makes it if it is not there, with mode 0600 in a directory of mode 0700. A symlink in its
// place is refused, and so are a file that others have rights to and a directory that others can write to. A stored batch is durable when
// Deliver returns.
func OpenSQLite(ctx context.Context, path string, o Options) (*Store, error) {
	if err := private(path); err != nil {
		return nil, err
	}
	db, err := sql.Open("sqlite", dataSource(path))
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	db.SetMaxOpenConns(4)
	s, err := newStore(ctx, db, sqliteDialect{}, migration(goose.DialectSQLite3, "sqlite"), o)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	return s, nil
}

// dataSource asks for a write-ahead log that is flushed at each commit, and for a lock at the start of each transaction: one
// that first reads and then writes could otherwise fail in between.
func dataSource(path string) string {
	u := url.URL{Scheme: "file", OmitHost: true, Path: path}
	u.RawQuery = url.Values{
		"_pragma": {"busy_timeout(5000)", "journal_mode(WAL)", "synchronous(FULL)", "trusted_schema(OFF)"},
		"_txlock": {"immediate"},
	}.Encode()
	return u.String()
}

// private makes directory and file, or checks those that are there.
func private(path string) error {
	if !filepath.IsAbs(path) {
		return fmt.Errorf("the store's path %s is not absolute", path)
	}
	dir := filepath.Dir(path)
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("make the store's directory: %w", err)
	}
	info, err := os.Lstat(dir)
	switch {
	case err != nil:
		return fmt.Errorf("look at the store's directory: %w", err)
	case !info.IsDir():
		return fmt.Errorf("%s is a symlink or no directory", dir)
	case info.Mode().Perm()&0o002 != 0:
		return fmt.Errorf("%s has mode %#o; others must not be able to write to it", dir, info.Mode().Perm())
	case info.Mode().Perm()&0o007 != 0:
		_ = os.Chmod(dir, info.Mode().Perm()&^0o077) // works on a hostPath, which is ours, and not on a volume of the cluster's
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		return f.Close()
	}
	if !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("make the store's file: %w", err)
	}
	for _, name := range []string{path, path + "-wal", path + "-shm", path + "-journal"} {
		info, err := os.Lstat(name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return fmt.Errorf("look at the store's file: %w", err)
		case !info.Mode().IsRegular():
			return fmt.Errorf("%s is no regular file; the store follows no symlinks", name)
		case info.Mode().Perm()&0o077 != 0:
			return fmt.Errorf("%s has mode %#o and must have 0600", name, info.Mode().Perm())
		}
	}
	return nil
}

type sqliteDialect struct{}

func (sqliteDialect) parameter(n int) string { return fmt.Sprintf("?%d", n) }

// writers is one: SQLite has one writer at a time, and whoever waits here waits in order.
func (sqliteDialect) writers() int { return 1 }

func (sqliteDialect) classify(err error) error {
	var known *sink.Error
	if errors.As(err, &known) {
		return err
	}
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return sink.Retry(sink.Internal, fmt.Errorf("use the store: %w", err))
	}
	err = fmt.Errorf("use the store: %w", err)
	switch e.Code() & 0xff {
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		return sink.Retry(sink.Busy, err)
	case sqlite3.SQLITE_TOOBIG, sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISMATCH:
		return sink.Final(sink.Refused, nodebinding.InvalidArgument, err)
	case sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN:
		return sink.Retry(sink.Disk, err)
	default:
		return sink.Retry(sink.Internal, err)
	}
}
