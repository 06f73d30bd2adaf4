package postgres_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lanyard-k8s/lanyard/delegation"
	"github.com/lanyard-k8s/lanyard/delegation/delegationtest"
	"github.com/lanyard-k8s/lanyard/delegation/postgres"
)

func TestAStandbyIsNotAskedFor(t *testing.T) {
	t.Parallel()
	for attrs, safe := range map[string]bool{
		"any": true, "read-write": true, "primary": true, "read-only": false, "standby": false, "prefer-standby": false,
	} {
		for name, o := range map[string]postgres.Options{
			"connection": {Conn: "host=/nowhere user=u target_session_attrs=" + attrs},
			"listen":     {Conn: shared.migrated(t).Conn, Listen: "host=/nowhere user=u target_session_attrs=" + attrs},
		} {
			s, err := postgres.Open(t.Context(), o)
			if err == nil {
				_ = s.Close()
			}
			if errors.Is(err, delegation.ErrUnsafe) == safe {
				t.Errorf("%s, %s: error is %v", name, attrs, err)
			}
			if !safe && !strings.Contains(fmt.Sprint(err), "take target_session_attrs away") {
				t.Errorf("%s, %s: the error does not say what to do: %v", name, attrs, err)
			}
		}
	}
}

// TestAStandbyIsNotRead has two servers in one connection string, the second a hot standby that lags behind. While the first is away, the
// second shows a row as it was before it was revoked; nothing is read there, neither then nor when the first is back.
func TestAStandbyIsNotRead(t *testing.T) {
	t.Parallel()
	first := &server{port: freePort(t), prepare: func(string) []string { return []string{"-c", "wal_level=replica"} }}
	t.Cleanup(first.stop)
	name := first.database(t)
	must(t, os.WriteFile(filepath.Join(first.data(), "pg_hba.conf"), []byte("local all all trust\nlocal replication all trust\n"), 0o600))
	first.exec(t, name, "SELECT pg_reload_conf()")
	alone := postgres.Options{Conn: first.conn(name)}
	must(t, postgres.Migrate(t.Context(), alone))
	writer := open(t, alone)
	_, err := writer.Confirm(t.Context(), delegationtest.Submission("j1"))
	must(t, err)
	row, err := writer.Put(t.Context(), delegationtest.PodRow("j1", "p1"))
	must(t, err)

	second := &server{port: freePort(t), bin: first.bin, dir: ownDirectory(t)}
	t.Cleanup(second.stop)
	out, err := first.command("pg_basebackup", "-h", first.dir, "-p", strconv.Itoa(first.port), "-U", "lanyard", "-D", second.data(), "-c", "fast", "-R", "--no-sync").CombinedOutput()
	if err != nil {
		t.Fatalf("copy the server: %v\n%s", err, out)
	}
	second.args = []string{"-c", "hot_standby=on", "-c", "recovery_min_apply_delay=1h"}
	must(t, second.run())

	both := postgres.Options{
		Conn: fmt.Sprintf("host=%s,%s port=%d,%d user=lanyard dbname=%s connect_timeout=2", first.dir, second.dir, first.port, second.port, name),
	}
	s := open(t, both)
	defer func() { _ = s.Close() }()
	if got, err := s.Get(t.Context(), row.Name); err != nil || got.Row.State != delegation.Active {
		t.Fatalf("while both are there: %+v, %v", got.Row, err)
	}
	_, err = writer.Revoke(t.Context(), delegation.Revocation{Submission: "j1", Reason: delegation.SubmissionRevoked, At: delegationtest.At(1)})
	must(t, err)
	must(t, writer.Close())
	first.kill()
	stale, err := postgres.Open(t.Context(), postgres.Options{Conn: second.conn(name)})
	if !errors.Is(err, delegation.ErrReadOnly) {
		t.Fatalf("the standby alone: %v, %v; want ErrReadOnly", stale, err)
	}
	for range 5 {
		if got, err := s.Get(t.Context(), row.Name); !errors.Is(err, delegation.ErrReadOnly) && !errors.Is(err, delegation.ErrUnavailable) {
			t.Fatalf("while the first is away: state %q, error %v; want the database away", got.Row.State, err)
		}
	}
	must(t, first.run())
	deadline := time.Now().Add(time.Minute)
	for {
		got, err := s.Get(t.Context(), row.Name)
		if err == nil && got.Row.State == delegation.Revoked {
			return
		}
		if err == nil || time.Now().After(deadline) {
			t.Fatalf("when the first is back: state %q, error %v; want it revoked", got.Row.State, err)
		}
		<-time.After(50 * time.Millisecond)
	}
}

// ownDirectory is a directory for a server that is a copy.
func ownDirectory(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "lanyard-postgres")
	must(t, err)
	if cred := unprivileged(); cred != nil {
		must(t, os.Chown(dir, int(cred.Uid), int(cred.Gid)))
	}
	return dir
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
