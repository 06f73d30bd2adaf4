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

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	_ "modernc.org/sqlite" // driver "sqlite"

	"github.com/lanyard-k8s/lanyard/test/e2e/house"
)

// storedEvents are the ids of the events in a node's store, with how often each is there. The store is copied first, since whoever
// opens a live one may disturb it.
func storedEvents(ctx context.Context, h *house.House, node, scratch string) (map[string]int, error) {
	return eventsIn(ctx, h.Cluster.NodeDir(node, "var/lib/lanyard/store"), scratch)
}

// handedOn are the ids of the events in the stores of the Deployment's replicas, with how often each is there. A store is in a volume
// that lasts as long as its pod.
func handedOn(ctx context.Context, h *house.House, scratch string) (map[string]int, error) {
	pods, err := h.Admin.CoreV1().Pods(house.Namespace).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/component=connector-deployment"})
	if err != nil {
		return nil, err
	}
	all := map[string]int{}
	for _, pod := range pods.Items {
		dir := h.Cluster.NodeDir(pod.Spec.NodeName, "var/lib/kubelet/pods", string(pod.UID), "volumes/kubernetes.io~empty-dir/store/store")
		kept, err := eventsIn(ctx, dir, scratch)
		if err != nil {
			return nil, fmt.Errorf("the store of %s: %w", pod.Name, err)
		}
		for id, n := range kept {
			all[id] += n
		}
	}
	return all, nil
}

// eventsIn are the ids of the events in the store in a folder.
func eventsIn(ctx context.Context, dir, scratch string) (map[string]int, error) {
	const name = "events.db"
	for _, suffix := range []string{"", "-wal", "-shm"} { // of a store that was copied before
		if err := os.RemoveAll(filepath.Join(scratch, name+suffix)); err != nil {
			return nil, err
		}
	}
	for _, suffix := range []string{"", "-wal"} {
		data, err := os.ReadFile(filepath.Join(dir, name+suffix))
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
