//go:build linux

package processes

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	driver "modernc.org/sqlite"

	"github.com/lanyard-k8s/lanyard/delegation/sqlite"
	"github.com/lanyard-k8s/lanyard/test/timing"
)

// TestADatabaseIsRestoredUnderARunningExchange: a copy from before a revocation is put back while the exchange serves. The revoked pod
// gets no token and no way past a gateway, the exchange ends with the line that it would refuse to start with, and goes on once the
// database is accepted.
func TestADatabaseIsRestoredUnderARunningExchange(t *testing.T) {
	w := withPostgres(t)
	for name, start := range map[string]func(t *testing.T) (config string, save, restore func(*testing.T)){
		"sqlite": func(t *testing.T) (string, func(*testing.T), func(*testing.T)) {
			dir := w.sqliteThatKnows(t)
			file, saved := filepath.Join(dir, sqlite.File), filepath.Join(t.TempDir(), "copy")
			return w.onSQLite(dir), func(t *testing.T) { pages(t, file, saved) }, func(t *testing.T) { pages(t, saved, file) }
		},
		"postgres": func(t *testing.T) (string, func(*testing.T), func(*testing.T)) {
			database := w.databaseThatKnows(t)
			var saved []byte
			return w.onPostgres(t, database, ""),
				func(t *testing.T) {
					saved = w.postgresClient(t, nil, "pg_dump", "--clean", "--if-exists", w.pg.Conn(database))
				},
				func(t *testing.T) {
					w.postgresClient(t, saved, "psql", "-q", "-v", "ON_ERROR_STOP=1", "--single-transaction", w.pg.Conn(database))
				}
		},
	} {
		t.Run(name, func(t *testing.T) {
			config, save, restore := start(t)
			w.emptied(t)
			h := w.house(t)
			p := w.replica(t, "restored-under-"+name, config)
			must(t, p.Start(t.Context()))
			pod := h.settled(p)
			token := h.subject(pod)
			access := h.wants("while it is good", p, token, http.StatusOK, "").text("access_token")
			save(t)
			timing.Within(t, time.Minute, "the revocation is taken", func() bool { return h.revoke(p, pod.UID).status == http.StatusOK })
			h.wants("revoked", p, token, http.StatusBadRequest, "invalid_request")
			restore(t)

			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			for ended := false; !ended; {
				if a := ask(ctx, p, token); a.status != http.StatusServiceUnavailable && a.status != 0 {
					t.Fatalf("a token of the revoked pod after the restore: %d %v", a.status, a.body)
				}
				if a := callout(ctx, p, access); a.status != http.StatusServiceUnavailable && a.status != 0 {
					t.Fatalf("a gateway after the restore: %d %v", a.status, a.body)
				}
				select {
				case <-p.Process().Done():
					ended = true
				case <-ctx.Done():
					t.Fatal("the exchange runs on, on a restored database")
				case <-time.After(50 * time.Millisecond):
				}
			}
			log, err := p.Log()
			must(t, err)
			lines := strings.Split(strings.TrimSpace(log), "\n")
			last := lines[len(lines)-1]
			if !strings.HasPrefix(last, "exchange: ") || !strings.Contains(last, "run `exchange migrate --accept-restore`") {
				t.Errorf("the last line is %q", last)
			}
			t.Log(last)
			ends(t, w.replica(t, "not-on-"+name, config), "check the database", "run `exchange migrate --accept-restore`")
			if out, err := w.command(t, config, "migrate", "--accept-restore"); err != nil {
				t.Fatalf("accepting: %v: %s", err, out)
			}
			must(t, p.Start(t.Context()))
			h.wants("once it is accepted", p, token, http.StatusBadRequest, "invalid_request")
		})
	}
}

// postgresClient runs one of PostgreSQL's own clients, and returns what it writes.
func (w *world) postgresClient(t *testing.T, in []byte, name string, args ...string) []byte {
	t.Helper()
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/" + name)
	if err != nil || len(found) == 0 {
		t.Fatalf("there is no %s beside the server", name)
	}
	cmd := exec.CommandContext(t.Context(), found[len(found)-1], args...)
	cmd.Stdin = bytes.NewReader(in)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", name, err, said.String())
	}
	return out
}

// pages makes one SQLite database what another is, as the shell's ".backup" and ".restore" do, whoever has them open.
func pages(t *testing.T, from, to string) {
	t.Helper()
	f, err := os.OpenFile(to, os.O_CREATE|os.O_RDWR, 0o600)
	must(t, err)
	must(t, f.Close())
	db, err := sql.Open("sqlite", to+"?_pragma=busy_timeout(5000)")
	must(t, err)
	defer func() { _ = db.Close() }()
	conn, err := db.Conn(t.Context())
	must(t, err)
	defer func() { _ = conn.Close() }()
	must(t, conn.Raw(func(c any) error {
		restorer, ok := c.(interface {
			NewRestore(string) (*driver.Backup, error)
		})
		if !ok {
			return fmt.Errorf("%T cannot restore", c)
		}
		b, err := restorer.NewRestore(from)
		if err != nil {
			return err
		}
		for more := true; more && err == nil; {
			more, err = b.Step(-1)
		}
		if done := b.Finish(); err == nil {
			err = done
		}
		return err
	}))
}
