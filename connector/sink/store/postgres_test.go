package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/lanyard-k8s/lanyard/connector/sink"
)

func TestReplicasShareATable(t *testing.T) {
	t.Parallel()
	dsn := shared.database(t)
	stores := make([]*Store, 4)
	errs := make(chan error, len(stores))
	for i := range stores {
		go func() {
			var err error
			stores[i], err = OpenPostgres(t.Context(), dsn, Options{})
			errs <- err
		}()
	}
	for range stores {
		if err := <-errs; err != nil {
			t.Fatal(err)
		}
	}
	for i, s := range stores {
		want := sink.Report{sink.Duplicate: 2}
		if i == 0 {
			want = sink.Report{sink.Written: 2}
		}
		deliver(t, s, batch("pod", "1", 2), want)
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestNoErrorShowsTheDataSourceName(t *testing.T) {
	t.Parallel()
	for name, dsn := range map[string]string{
		"a broken one":         "postgres://lanyard:marked-password@%zz/db",
		"a server that is not": "postgres://lanyard:marked-password@127.0.0.1:1/db?connect_timeout=2",
		"words":                "host=marked-password port=marked-password",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "dsn")
			if err := os.WriteFile(file, []byte(dsn), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := OpenPostgres(t.Context(), file, Options{})
			if err == nil || strings.Contains(fmt.Sprintf("%v %+v", err, err), "marked-password") {
				t.Errorf("got %v", err)
			}
		})
	}
	if _, err := OpenPostgres(t.Context(), filepath.Join(t.TempDir(), "none"), Options{}); sink.Classify(err).Reason != sink.Credential {
		t.Errorf("got %v", err)
	}
}

func TestPostgresErrors(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]struct {
		reason sink.Reason
		final  bool
	}{
		"22021": {sink.Refused, true}, "23505": {sink.Refused, true}, "54000": {sink.Refused, true},
		"28P01": {sink.Unauthorized, false}, "40001": {sink.Conflict, false}, "53100": {sink.Disk, false}, "53300": {sink.Busy, false},
		"57P01": {sink.Unreachable, false}, "08006": {sink.Unreachable, false}, "42P01": {sink.Internal, false}, "": {sink.Internal, false},
	} {
		got := sink.Classify(postgresDialect{}.classify(&pgconn.PgError{Code: code, Message: "marked"}))
		if got.Reason != want.reason || got.Final != want.final || strings.Contains(got.Error(), "marked") {
			t.Errorf("%s: %v", code, got)
		}
	}
	if got := sink.Classify(postgresDialect{}.classify(errors.New("connection refused"))); got.Reason != sink.Unreachable || got.Final {
		t.Errorf("no code: %v", got)
	}
}
