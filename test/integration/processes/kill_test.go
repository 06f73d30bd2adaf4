//go:build linux

package processes

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/lanyard-k8s/lanyard/delegation"
	"github.com/lanyard-k8s/lanyard/delegation/sqlite"
	"github.com/lanyard-k8s/lanyard/test/cluster/exchange"
	"github.com/lanyard-k8s/lanyard/test/timing"
)

// kills is how often the program is killed.
const kills = 20

// ledger is what the program has acknowledged: rows by a token, revocations by the admins' answer. Between asking for a
// revocation and its answer a row may be either.
type ledger struct {
	mu      sync.Mutex
	granted map[string]string // pod UID to subject token
	asked   map[string]bool
	revoked map[string]bool
}

func (l *ledger) note(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f()
}

func (l *ledger) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.granted) + len(l.revoked)
}

// work gets tokens for pods and has every third revoked, until ctx ends or the program is gone.
func (h *house) work(ctx context.Context, p *exchange.Program, pods []*corev1.Pod, tokens []string, l *ledger) {
	var all sync.WaitGroup
	for i, pod := range pods {
		all.Go(func() {
			uid := string(pod.UID)
			if ask(ctx, p, tokens[i]).status != http.StatusOK {
				return
			}
			l.note(func() { l.granted[uid] = tokens[i] })
			if i%3 != 0 {
				return
			}
			l.note(func() { l.asked[uid] = true })
			if h.revoke(p, pod.UID).status == http.StatusOK {
				l.note(func() { l.revoked[uid] = true })
			}
		})
	}
	all.Wait()
}

// check opens the database while no program does, so that nothing can have been written anew, and holds it to what was acknowledged.
func (l *ledger) check(t *testing.T, directory, namespace string) {
	t.Helper()
	store, err := sqlite.Open(t.Context(), directory)
	must(t, err)
	defer func() { must(t, store.Close()) }()
	for uid := range l.granted {
		name := delegation.PodName("nemo-platform-api", "system:serviceaccount:"+namespace+":default", uid)
		got, err := store.Get(t.Context(), name)
		switch {
		case err != nil:
			t.Errorf("the row of %s was acknowledged, and is lost: %v", uid, err)
		case l.revoked[uid] && got.Row.State != delegation.Revoked:
			t.Errorf("the revocation of %s was acknowledged, and is lost: %s", uid, got.Row.State)
		case !l.asked[uid] && got.Row.State != delegation.Active:
			t.Errorf("the row of %s is %s, though nobody has revoked it", uid, got.Row.State)
		case got.Submission.Submitter != "alice":
			t.Errorf("the row of %s is %q's", uid, got.Submission.Submitter)
		}
	}
}

// TestTwentyKillsOfTheProgram kills the program twenty times while it judges pods, hands out tokens and revokes. After each kill the
// database holds every row and every revocation that was acknowledged, before the program could write them anew.
func TestTwentyKillsOfTheProgram(t *testing.T) {
	w := theWorld(t)
	directory := w.sqliteThatKnows(t)
	w.emptied(t)
	config := w.onSQLite(directory)
	h := w.house(t)
	p := w.replica(t, "killed", config)
	must(t, p.Start(t.Context()))
	first := h.subject(h.settled(p))
	l := &ledger{granted: map[string]string{}, asked: map[string]bool{}, revoked: map[string]bool{}}
	for round := range kills {
		var pods []*corev1.Pod
		var tokens []string
		for i := range 9 {
			pod := h.pod(fmt.Sprintf("killed-%d-%d", round, i))
			pods, tokens = append(pods, pod), append(tokens, h.subject(pod))
		}
		before := l.count()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); h.work(ctx, p, pods, tokens, l) }()
		timing.Within(t, time.Minute, "something was acknowledged", func() bool { return l.count() > before+round%9 })
		must(t, p.Process().Kill())
		<-done
		cancel()
		l.check(t, directory, h.namespace)
		must(t, p.Start(t.Context()))
	}
	h.wants("the first pod, after twenty kills", p, first, http.StatusOK, "")
	for uid, token := range l.granted {
		status, code := http.StatusOK, ""
		if l.revoked[uid] {
			status, code = http.StatusBadRequest, "invalid_request"
		}
		if !l.asked[uid] || l.revoked[uid] {
			h.wants(uid, p, token, status, code)
		}
	}
	log, err := p.Log()
	must(t, err)
	if n := strings.Count(log, `"message":"configuration loaded"`); n != kills+1 {
		t.Errorf("the program has started %d times", n)
	}
	t.Logf("%d rows and %d revocations acknowledged over %d kills", len(l.granted), len(l.revoked), kills)
}
