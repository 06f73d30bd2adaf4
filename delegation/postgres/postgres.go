// Package postgres keeps submissions and rows in PostgreSQL, for an exchange of several replicas: any of them serves, and hears by
// LISTEN of what another has written.
//
// The connection string is pgx's, a URL or key=value words. The server must prove who it is (sslmode=verify-full), unless it
// is reached by a Unix socket: whoever answers in its place could name any submitter. Behind a pooler in transaction mode add
// default_query_exec_mode=exec, and give Options.Listen a way around it.
package postgres

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"reflect"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"github.com/lanyard-k8s/lanyard/delegation"
	"github.com/lanyard-k8s/lanyard/delegation/internal/ledger"
)

//go:embed migrations/*.sql
var embedded embed.FS

// Options say how to reach the database.
type Options struct {
	// Conn is the connection string. It holds a password: it is never printed.
	Conn string
	// Listen is the connection string for LISTEN; empty means Conn.
	Listen string
	// MaxConns is how many connections are used at most, besides the one that listens; zero means 8.
	MaxConns int
}

// String tells nothing.
func (o Options) String() string { return "[connection]" }

// GoString tells nothing either.
func (o Options) GoString() string { return "[connection]" }

// Store is the store in a database.
type Store struct {
	*ledger.Store
	listener *listener
}

// Open connects to a database that Migrate has made. Its errors are those of package delegation: ErrUnsafe, ErrSchemaOlder,
// ErrSchemaNewer, ErrReadOnly, ErrUnavailable and ErrCorrupt.
func Open(ctx context.Context, o Options) (*Store, error) {
	db, err := connect(o)
	if err != nil {
		return nil, fmt.Errorf("open the database: %w", err)
	}
	s, err := open(ctx, o, db)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open the database: %w", sorted(err)), db.Close())
	}
	return s, nil
}

func open(ctx context.Context, o Options, db *sql.DB) (*Store, error) {
	files, err := fs.Sub(embedded, "migrations")
	if err == nil {
		err = ledger.Check(ctx, db, files, ledger.PostgresTables)
	}
	if err == nil {
		err = writable(ctx, db)
	}
	if err != nil {
		return nil, err
	}
	way := o.Conn
	if o.Listen != "" {
		way = o.Listen
	}
	config, err := safeConfig(way)
	if err != nil {
		return nil, err
	}
	l, err := ledger.New(ctx, ledger.Dialect{
		ForUpdate: " FOR UPDATE", ForShare: " FOR SHARE", Kind: kind, Retry: lost, Announce: announce,
	}, db, db)
	if err != nil {
		return nil, err
	}
	return &Store{Store: l, listener: listen(config, &l.Hub)}, nil
}

// Close ends the subscriptions and closes the connections.
func (s *Store) Close() error {
	s.listener.close()
	return s.Store.Close()
}

// Migrate makes the tables, or brings older ones up to date. Several may call it at once: one works, the others wait.
func Migrate(ctx context.Context, o Options) (err error) {
	db, err := connect(o)
	if err != nil {
		return fmt.Errorf("migrate the database: %w", err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	files, err := fs.Sub(embedded, "migrations")
	if err != nil {
		return fmt.Errorf("migrate the database: %w", err)
	}
	locker, err := lock.NewPostgresSessionLocker()
	if err != nil {
		return fmt.Errorf("migrate the database: %w", err)
	}
	if err := ledger.Migrate(ctx, goose.DialectPostgres, db, files, goose.WithSessionLocker(locker)); err != nil {
		return fmt.Errorf("migrate the database: %w", sorted(err))
	}
	return nil
}

func connect(o Options) (*sql.DB, error) {
	config, err := safeConfig(o.Conn)
	if err != nil {
		return nil, err
	}
	conns := o.MaxConns
	if conns <= 0 {
		conns = 8
	}
	db := stdlib.OpenDB(*config)
	db.SetMaxOpenConns(conns)
	db.SetMaxIdleConns(conns)
	db.SetConnMaxIdleTime(5 * time.Minute)
	db.SetConnMaxLifetime(30 * time.Minute)
	return db, nil
}

// safeConfig reads a connection string, and refuses one that any of its servers could be reached by without proving who it is.
// pgx turns sslmode into TLS settings, and "prefer" into several ways, the one without TLS among them: all are looked at. Only a host
// that is a path is a Unix socket to pgx; "@name", which libpq takes for one, it dials like any other.
func safeConfig(conn string) (*pgx.ConnConfig, error) {
	config, err := pgx.ParseConfig(conn)
	if err != nil {
		return nil, fmt.Errorf("%w: the connection string cannot be read", delegation.ErrUnsafe) // pgx's text may quote it
	}
	ways := append([]*pgconn.FallbackConfig{{Host: config.Host, Port: config.Port, TLSConfig: config.TLSConfig}}, config.Fallbacks...)
	for _, w := range ways {
		network, _ := pgconn.NetworkAddress(w.Host, w.Port)
		proven := w.TLSConfig != nil && !w.TLSConfig.InsecureSkipVerify && w.TLSConfig.ServerName != ""
		if network != "unix" && !proven {
			return nil, fmt.Errorf("%w: set sslmode=verify-full (and sslrootcert), or use a Unix socket", delegation.ErrUnsafe)
		}
	}
	if err := currentOnly(&config.Config); err != nil {
		return nil, err
	}
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = 5 * time.Second
	}
	config.RuntimeParams["application_name"] = "lanyard-exchange"
	return config, nil
}

// currentOnly has every connection asked, when it is made, whether its server takes writes. One that does not is a standby, which may lag
// behind: it would show a row as it was before it was revoked, and a connection to it would outlive the outage that led there. pgx asks
// nothing by itself. A connection string that asks for standbys is refused.
func currentOnly(config *pgconn.Config) error {
	if config.ValidateConnect == nil {
		config.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	for _, standby := range []pgconn.ValidateConnectFunc{
		pgconn.ValidateConnectTargetSessionAttrsReadOnly, pgconn.ValidateConnectTargetSessionAttrsStandby,
		pgconn.ValidateConnectTargetSessionAttrsPreferStandby,
	} {
		if reflect.ValueOf(config.ValidateConnect).Pointer() == reflect.ValueOf(standby).Pointer() { // the words themselves are nowhere in the config
			return fmt.Errorf("%w: a standby may not know of a revocation yet; take target_session_attrs away, or set it to read-write", delegation.ErrUnsafe)
		}
	}
	return nil
}

// writable takes the write lock once, so that a replica or a missing right shows at the start.
func writable(ctx context.Context, db *sql.DB) error {
	if _, err := db.ExecContext(ctx, "UPDATE guard SET ended = ended WHERE id = 1"); err != nil {
		return fmt.Errorf("try to write: %w", err)
	}
	return nil
}
