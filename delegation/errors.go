package delegation

import "errors"

// What a Store can answer besides a record. Every error of a Store is exactly one of these, found by errors.Is, or the
// caller's own context error. None of them says anything about the caller of the token endpoint but ErrNotFound: the others are
// answered with 503.
var (
	// ErrNotFound: there is no such record.
	ErrNotFound = errors.New("no such record")
	// ErrInvalid: the record or the question is not well formed; a fault of the program.
	ErrInvalid = errors.New("the record is not well formed")
	// ErrConflict: a record of that name stands for something else. Names are made from what they stand for, so this is a
	// fault of the program or a forgery.
	ErrConflict = errors.New("the record stands for something else")
	// ErrEnded: the submission is closed or unknown, and gets no new rows.
	ErrEnded = errors.New("the submission takes no new rows")
	// ErrUnavailable: the database cannot be reached or did not answer in time; the same question may be asked again.
	ErrUnavailable = errors.New("the database is unavailable")
	// ErrReadOnly: the database takes no writes: a replica, a full disk or a read-only mount.
	ErrReadOnly = errors.New("the database takes no writes")
	// ErrCorrupt: the database holds what no version of the program writes.
	ErrCorrupt = errors.New("the database is damaged")
	// ErrSchemaOlder: the database is empty or was made by an older version; `exchange migrate` brings it up.
	ErrSchemaOlder = errors.New("the database's schema is older than this program; run `exchange migrate`")
	// ErrSchemaNewer: the database was migrated by a newer version, which this one must not touch.
	ErrSchemaNewer = errors.New("the database's schema is newer than this program; run the newer version, or restore a copy made before it was migrated")
	// ErrLocked: another process has the SQLite database open.
	ErrLocked = errors.New("the database is in use by another process; one process alone may use an SQLite database")
	// ErrUnsafe: the place of the database or the way to it is not safe: loose permissions, a symbolic link, no TLS.
	ErrUnsafe = errors.New("the database is not kept safely")
	// ErrRestored: the database is older than the last one seen; see Mark.
	ErrRestored = errors.New("the database is older than the one last used, so revocations may be missing; run `exchange migrate --accept-restore`")
)
