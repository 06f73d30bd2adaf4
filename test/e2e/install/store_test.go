//go:build unix

package install

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	_ "modernc.org/sqlite" // driver "sqlite"

	"github.com/lanyard-k8s/lanyard/test/e2e/house"
)

// storedEvents are the ids of the events in a node's store, with how often each is there. The store is copied first, since whoever
// opens a live one may disturb it.
func storedEvents(ctx context.Context, h *house.House, node, scratch string) (map[string]int, error) {
	const name = "events.db"
	for _, suffix := range []string{"", "-wal"} {
		data, err := os.ReadFile(h.Cluster.NodeDir(node, "var/lib/lanyard/store", name+suffix))
		if suffix != "" && errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(scratch, name+suffix), data, 0o600)
		}
		if err != nil {
			return nil, fmt.Errorf("copying the store: %w", err)
		}
	}
	db, err := sql.Open("sqlite", filepath.Join(scratch, name))
	if err != nil {
		return nil, err
	}
	defer func() { _ = db.Close() }()
	rows, err := db.QueryContext(ctx, "SELECT event_id FROM health_events")
	if err != nil {
		return nil, fmt.Errorf("reading the store: %w", err)
	}
	defer func() { _ = rows.Close() }()
	kept := map[string]int{}
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		kept[id]++
	}
	return kept, rows.Err()
}
