//go:build linux

package processes

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lanyard-k8s/lanyard/test/cluster/exchange"
	"github.com/lanyard-k8s/lanyard/test/cluster/process"
	"github.com/lanyard-k8s/lanyard/test/timing"
)

// ends fails the test unless a program ends by itself, with one line that holds the words.
func ends(t *testing.T, p *exchange.Program, words ...string) {
	t.Helper()
	must(t, p.Launch())
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err := p.Await(ctx)
	if err == nil || !strings.Contains(err.Error(), process.ErrEnded.Error()) {
		t.Fatalf("the program has not ended by itself: %v", err)
	}
	log, err := p.Log()
	must(t, err)
	lines := strings.Split(strings.TrimSpace(log), "\n")
	last := lines[len(lines)-1]
	if !strings.HasPrefix(last, "exchange: ") {
		t.Errorf("the last line is %q", last)
	}
	for _, word := range words {
		if !strings.Contains(last, word) {
			t.Errorf("the last line lacks %q: %s", word, last)
		}
	}
	for _, line := range lines[:len(lines)-1] {
		if strings.HasPrefix(line, "exchange: ") {
			t.Errorf("there is another line for people: %s", line)
		}
	}
	t.Log(last)
}

// TestADatabaseThatCannotServe: the program says what is wrong with it and what to do, and ends.
func TestADatabaseThatCannotServe(t *testing.T) {
	w := withPostgres(t)
	w.emptied(t)
	for name, tc := range map[string]struct {
		migrated   bool
		statements []string
		words      []string
	}{
		"empty":     {false, nil, []string{"open the database", "run `exchange migrate`"}},
		"older":     {true, []string{`DELETE FROM schema_version WHERE version_id > 0`}, []string{"older", "run `exchange migrate`"}},
		"newer":     {true, []string{`INSERT INTO schema_version (version_id, is_applied) VALUES (99, true)`}, []string{"newer"}},
		"read-only": {true, []string{`ALTER DATABASE %s SET default_transaction_read_only = on`}, []string{"takes no writes", "read only"}},
		"damaged":   {true, []string{`DROP TABLE guard`}, []string{"open the database"}},
	} {
		t.Run(name, func(t *testing.T) {
			database := w.database(t)
			config := w.onPostgres(t, database, "")
			if tc.migrated {
				w.migrate(t, config)
			}
			for _, statement := range tc.statements {
				must(t, w.pg.Exec(t.Context(), database, strings.ReplaceAll(statement, "%s", database)))
			}
			ends(t, w.replica(t, "bad-"+database, config), tc.words...)
		})
	}
	t.Run("away", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "connection")
		must(t, os.WriteFile(file, []byte("postgres:///x?host=/nowhere&user=lanyard&password=hunter2"), 0o600))
		p := w.replica(t, "away", w.configured("store: {driver: postgres, connectionFile: "+file+"}"))
		ends(t, p, "open the database", "unavailable")
		if log, err := p.Log(); err != nil || strings.Contains(log, "hunter2") {
			t.Errorf("the password is in the log (%v)", err)
		}
	})
}

// TestTwoReplicasOnSQLite are refused twice: by the configuration, and by the file where the configuration does not say so.
func TestTwoReplicasOnSQLite(t *testing.T) {
	w := theWorld(t)
	w.emptied(t)
	store := "store: {directory: " + t.TempDir() + "/records}\nreconcile: {policies: " + w.policies + "}\n"
	w.migrate(t, w.configured(store))
	out, err := w.command(t, w.configured(store+"replicas: 2\n"), "migrate")
	if err == nil || !strings.Contains(out, "replicas: must be 1 with store.driver sqlite") {
		t.Errorf("two replicas: %v: %s", err, out)
	}
	must(t, w.replica(t, "only", w.configured(store)).Start(t.Context()))
	ends(t, w.replica(t, "second", w.configured(store)), "in use by another process")
}

// TestADatabaseFromBeforeARevocation: a copy that was taken before somebody was revoked is not used, until everything in it is revoked.
func TestADatabaseFromBeforeARevocation(t *testing.T) {
	w := withPostgres(t)
	for name, start := range map[string]func(t *testing.T) (before, after string, restore func()){
		"sqlite": func(t *testing.T) (string, string, func()) {
			live, later := w.sqliteThatKnows(t), t.TempDir()+"/copy"
			return w.onSQLite(live), w.onSQLite(later), func() { copied(t, live, later) }
		},
		"postgres": func(t *testing.T) (string, string, func()) {
			live := w.databaseThatKnows(t)
			return w.onPostgres(t, live, ""), w.onPostgres(t, live+"copy", ""), func() {
				must(t, w.pg.Exec(t.Context(), "postgres", fmt.Sprintf("CREATE DATABASE %scopy TEMPLATE %s", live, live)))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			before, after, restore := start(t)
			w.emptied(t)
			h := w.house(t)
			p := w.replica(t, "live-"+name, before)
			must(t, p.Start(t.Context()))
			pod := h.settled(p)
			other := h.pod("other")
			token, others := h.subject(pod), h.subject(other)
			timing.Within(t, 20*time.Second, "both are judged", func() bool { return ask(t.Context(), p, others).status == http.StatusOK })
			must(t, p.Stop(t.Context()))
			restore()
			must(t, p.Start(t.Context()))
			timing.Within(t, 20*time.Second, "the revocation is taken", func() bool { return h.revoke(p, pod.UID).status == http.StatusOK })
			h.wants("revoked", p, token, http.StatusBadRequest, "invalid_request")
			must(t, p.Stop(t.Context()))

			restored := w.replica(t, "restored-"+name, after)
			ends(t, restored, "check the database", "run `exchange migrate --accept-restore`")
			if out, err := w.command(t, after, "migrate", "--accept-restore"); err != nil || !strings.Contains(out, "everything that was open in it is revoked") {
				t.Errorf("accepting: %v: %s", err, out)
			}
			must(t, restored.Start(t.Context()))
			h.wants("revoked before, after the restore", restored, token, http.StatusBadRequest, "invalid_request")
			h.wants("never revoked, after the restore", restored, others, http.StatusBadRequest, "invalid_request")
			ends(t, w.replica(t, "again-"+name, before), "check the database", "it is another database")
		})
	}
}
