package postgres

import (
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/lanyard-k8s/lanyard/delegation"
)

// kind finds the sentinel of an error of the driver by its SQLSTATE (PostgreSQL's documentation, appendix A).
func kind(err error) error {
	if errors.Is(err, pgconn.ErrReadOnlyConnection) || errors.Is(err, pgconn.ErrStandbyConnection) {
		return delegation.ErrReadOnly
	}
	var e *pgconn.PgError
	if !errors.As(err, &e) {
		return nil
	}
	switch {
	case e.Code == "25006", e.Code == "42501", e.Code == "53100": // a replica, a missing right, a full disk
		return delegation.ErrReadOnly
	case strings.HasPrefix(e.Code, "23"), strings.HasPrefix(e.Code, "22"): // constraints, data
		return delegation.ErrInvalid
	case strings.HasPrefix(e.Code, "XX"), e.Code == "42P01", e.Code == "42703": // damage, a table or column gone
		return delegation.ErrCorrupt
	default:
		return delegation.ErrUnavailable
	}
}

// lost says whether a transaction was given up in favour of another.
func lost(err error) bool {
	var e *pgconn.PgError
	return errors.As(err, &e) && (e.Code == "40001" || e.Code == "40P01")
}

// sorted gives an error of opening its sentinel, unless it has one. The cause of a failed connection names host, user and
// database, never the password.
func sorted(err error) error {
	for _, known := range []error{
		delegation.ErrSchemaOlder, delegation.ErrSchemaNewer, delegation.ErrUnsafe, delegation.ErrCorrupt, delegation.ErrUnavailable,
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
