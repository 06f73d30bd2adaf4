package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-logr/logr"

	"github.com/lanyard-k8s/lanyard/delegation"
	"github.com/lanyard-k8s/lanyard/delegation/sqlite"
	"github.com/lanyard-k8s/lanyard/exchange/keys"
	"github.com/lanyard-k8s/lanyard/exchange/settings"
)

// opened is an exchange's database in use, and the directory of its shelf.
func opened(t *testing.T) (*parts, string) {
	t.Helper()
	records, shelf := filepath.Join(t.TempDir(), "records"), filepath.Join(t.TempDir(), "keys")
	must(t, sqlite.Migrate(t.Context(), records))
	p := &parts{log: logr.Discard(), cfg: settings.Settings{Store: settings.Store{Driver: settings.SQLite, Directory: records}}}
	var err error
	p.shelf, err = keys.NewDirectory(shelf)
	must(t, err)
	must(t, p.openStore(t.Context()))
	t.Cleanup(p.close)
	must(t, p.tryStore(t.Context()))
	return p, shelf
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// mark is what stands on the shelf.
func (p *parts) mark(t *testing.T) delegation.Mark {
	t.Helper()
	state, err := p.shelf.Read(t.Context())
	must(t, err)
	return state.Mark
}

// TestARunningExchangeNoticesARestoredDatabase: a shelf that has seen more, or another database, than the one in use. The exchange ends,
// its store answers nothing until then, and the shelf keeps what it knows.
func TestARunningExchangeNoticesARestoredDatabase(t *testing.T) {
	t.Parallel()
	for name, seen := range map[string]func(delegation.Mark) delegation.Mark{
		"it has fallen behind": func(m delegation.Mark) delegation.Mark {
			return delegation.Mark{Lineage: m.Lineage, Ended: m.Ended + 10}
		},
		"it is another database": func(delegation.Mark) delegation.Mark { return delegation.Mark{Lineage: "other", Ended: 0} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, _ := opened(t)
			want := seen(p.mark(t))
			must(t, setMark(t.Context(), p.shelf, want))
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if err := p.watchStore(ctx); !errors.Is(err, delegation.ErrRestored) {
				t.Errorf("the watch has ended with %v, want ErrRestored", err)
			}
			if _, err := p.store.Get(t.Context(), delegation.PodName("a", "u", "p")); !errors.Is(err, delegation.ErrRestored) {
				t.Errorf("a row: %v, want ErrRestored", err)
			}
			if p.storeUp.Load() {
				t.Error("the database counts as up")
			}
			if got := p.mark(t); got != want {
				t.Errorf("the shelf holds %+v, want %+v as before", got, want)
			}
		})
	}
}

// TestAnUnreadableShelfIsNoRestore: the database is used on, and compared with what this process has seen of it.
func TestAnUnreadableShelfIsNoRestore(t *testing.T) {
	t.Parallel()
	p, shelf := opened(t)
	must(t, os.Chmod(shelf, 0o755))
	if err := p.tryStore(t.Context()); !errors.Is(err, keys.ErrUnsafe) || errors.Is(err, delegation.ErrRestored) {
		t.Errorf("got %v, want ErrUnsafe", err)
	}
	if !p.storeUp.Load() {
		t.Error("the database counts as down")
	}
}
