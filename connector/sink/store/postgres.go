package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"github.com/lanyard-k8s/lanyard/connector/nodebinding"
	"github.com/lanyard-k8s/lanyard/connector/sink"
)

// Bounds of the connections to PostgreSQL. Many transactions at once share its flushes.
const (
	postgresConnections = 16
	postgresLifetime    = 10 * time.Minute
)

// OpenPostgres opens the database whose data source name stands in a file. The file is read again for each new connection,
// so that a password can be changed while the connector runs. No error shows what stands in the file.
func OpenPostgres(ctx context.Context, dsnFile string, o Options) (*Store, error) {
	config, err := readDSN(dsnFile)
	if err != nil {
		return nil, err
	}
	db := stdlib.OpenDB(*config, stdlib.OptionBeforeConnect(func(_ context.Context, c *pgx.ConnConfig) error {
		fresh, err := readDSN(dsnFile)
		if err != nil {
			return err
		}
		c.User, c.Password = fresh.User, fresh.Password
		return nil
	}))
	db.SetMaxOpenConns(postgresConnections)
	db.SetMaxIdleConns(postgresConnections)
	db.SetConnMaxLifetime(postgresLifetime)
	// Of several replicas that start at once one brings the table up to date, and the others wait for it.
	locker, err := lock.NewPostgresSessionLocker()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make a lock: %w", err), db.Close())
	}
	return newStore(ctx, db, postgresDialect{}, migration(goose.DialectPostgres, "postgres", goose.WithSessionLocker(locker)), o)
}

// readDSN reads a data source name. The library's own errors quote it, so they are not passed on.
func readDSN(file string) (*pgx.ConnConfig, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, sink.Retry(sink.Credential, fmt.Errorf("read the data source name: %w", err))
	}
	config, err := pgx.ParseConfig(strings.TrimSpace(string(raw)))
	if err != nil {
		return nil, sink.Retry(sink.Credential, fmt.Errorf("%s holds no data source name of PostgreSQL", file))
	}
	return config, nil
}

type postgresDialect struct{}

func (postgresDialect) parameter(n int) string { return "$" + strconv.Itoa(n) }

func (postgresDialect) writers() int { return postgresConnections }

// classify goes by SQLSTATE. Only what is wrong with the values is final: everything else somebody can mend.
func (postgresDialect) classify(err error) error {
	var known *sink.Error
	if errors.As(err, &known) {
		return err
	}
	var e *pgconn.PgError
	if !errors.As(err, &e) {
		return sink.Retry(sink.Unreachable, fmt.Errorf("use the store: %w", err))
	}
	err = fmt.Errorf("use the store: SQLSTATE %s", e.Code)
	switch class := e.Code[:min(2, len(e.Code))]; {
	case class == "22" || class == "23" || e.Code == pgProgramLimit:
		return sink.Final(sink.Refused, nodebinding.InvalidArgument, err)
	case class == "28":
		return sink.Retry(sink.Unauthorized, err)
	case class == "40":
		return sink.Retry(sink.Conflict, err)
	case e.Code == pgDiskFull || class == "58":
		return sink.Retry(sink.Disk, err)
	case class == "53":
		return sink.Retry(sink.Busy, err)
	case class == "08" || class == "57":
		return sink.Retry(sink.Unreachable, err)
	default:
		return sink.Retry(sink.Internal, err)
	}
}

// SQLSTATE codes that differ from their class.
const (
	pgDiskFull     = "53100"
	pgProgramLimit = "54000"
)
