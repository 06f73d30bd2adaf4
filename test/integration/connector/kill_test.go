//go:build linux

package connector

import (
	"database/sql"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	_ "modernc.org/sqlite" // the driver that the store's file is read by

	"github.com/lanyard-k8s/lanyard/test/timing"
)

// kills is how often the connector is killed.
const kills = 20

// publisher reports under a new key again and again, and repeats what was not acknowledged, as real ones do.
type publisher struct {
	token string
	acked []string
}

func (p *publisher) report(r *atomic.Pointer[running], id int, stop <-chan struct{}) {
	for n := 0; ; n++ {
		key := fmt.Sprintf("p%d-%d", id, n)
		for r.Load().send(key, p.token, "", "") != nil {
			select {
			case <-stop:
				return
			case <-time.After(5 * time.Millisecond): // the connector that starts meanwhile needs the processors
			}
		}
		p.acked = append(p.acked, key)
		select {
		case <-stop:
			return
		default:
		}
	}
}

// TestKillLosesNoBatchAndStoresNoneTwice kills a socket connector under load, at moments of no choosing, twenty times.
func TestKillLosesNoBatchAndStoresNoneTwice(t *testing.T) {
	h := shared.home(t)
	r := h.run(func(p *plan) { p.level = "info" })
	var current atomic.Pointer[running]
	current.Store(r)
	publishers := make([]*publisher, 4)
	stop := make(chan struct{})
	var load sync.WaitGroup
	for i := range publishers {
		publishers[i] = &publisher{token: h.of(h.pod(fmt.Sprint("p", i), monitor, h.node.Name))}
		load.Go(func() { publishers[i].report(&current, i, stop) })
	}
	for range kills {
		timer := time.NewTimer(time.Duration(50+rand.N(400)) * time.Millisecond)
		<-timer.C
		must(t, r.process.Kill())
		next := *r
		next.process = next.start()
		timing.Within(t, 2*time.Minute, "the connector is back", func() bool { return next.get("/readyz") == "ready\n" })
		next.conn = next.dial()
		next.client = newClient(next.conn)
		r.process = next.process
		current.Store(&next)
	}
	close(stop)
	load.Wait()
	timing.Within(t, time.Minute, "everything is delivered", func() bool {
		return strings.Contains(r.get("/metrics"), `lanyard_connector_spool_depth{sink="store"} 0`)
	})
	rows := stored(t, r.file("store/events.db"))
	acked, lost := 0, 0
	for _, p := range publishers {
		acked += len(p.acked)
		for _, key := range p.acked {
			if rows[key] != 2 {
				lost++
				t.Errorf("batch %s has %d of its 2 events", key, rows[key])
			}
		}
	}
	for key, n := range rows {
		if n != 2 {
			t.Errorf("batch %s is stored with %d events instead of 2", key, n)
		}
	}
	t.Logf("%d kills, %d batches acknowledged, %d stored, %d lost", kills, acked, len(rows), lost)
	if acked < kills {
		t.Error("there was hardly any load")
	}
}

// stored counts the events of each idempotency key.
func stored(t *testing.T, path string) map[string]int {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?mode=ro")
	must(t, err)
	defer db.Close()
	found, err := db.QueryContext(t.Context(), "SELECT idempotency_key, count(*) FROM health_events GROUP BY idempotency_key")
	must(t, err)
	defer found.Close()
	out := map[string]int{}
	for found.Next() {
		var key string
		var n int
		must(t, found.Scan(&key, &n))
		out[key] = n
	}
	must(t, found.Err())
	return out
}
