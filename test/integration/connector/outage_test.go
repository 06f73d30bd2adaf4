//go:build linux

package connector

import (
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/lanyard-k8s/lanyard/test/cluster"
	"github.com/lanyard-k8s/lanyard/test/timing"
)

// TestT29Outage takes the API server away, in two ways, from a connector that fails closed, one that fails open, and a deployment.
func TestT29Outage(t *testing.T) {
	for name, tc := range map[string]struct{ stop, start func(*testing.T, *world) }{
		"stopped in its tracks": {
			stop:  func(t *testing.T, w *world) { must(t, w.Pause(cluster.APIServer)) },
			start: func(t *testing.T, w *world) { must(t, w.Resume(cluster.APIServer)) },
		},
		"killed": {
			stop:  func(t *testing.T, w *world) { must(t, w.Kill(cluster.APIServer)) },
			start: func(t *testing.T, w *world) { must(t, w.Restart(t.Context(), cluster.APIServer)) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := shared.home(t)
			closed, deployment := h.run(), h.run(func(p *plan) { p.deployment = true })
			open := h.run(func(p *plan) { p.config["AuthFailOpenOnUnavailable"] = true })
			pod := h.pod("here", monitor, h.node.Name)
			known, strangers := h.of(pod), []string{}
			for range 12 {
				strangers = append(strangers, h.of(pod))
			}
			for _, r := range []*running{closed, open, deployment} {
				must(t, r.call(known, ""))
			}
			tc.stop(t, &shared)
			up := sync.OnceFunc(func() { tc.start(t, &shared) })
			defer up()
			h.holdsOut(t, closed, open, deployment, known, strangers)
			up()
			took := timing.Within(t, 30*time.Second, "a stranger is known again", func() bool {
				err := closed.call(strangers[11], "")
				if code := status.Code(err); code != codes.OK && code != codes.Unavailable {
					t.Errorf("while the API server starts: %v, want Unavailable or a yes", err) // it calls everything forbidden for a moment
				}
				return err == nil
			})
			t.Logf("strangers are known %s after the API server is back", took)
		})
	}
}

// holdsOut is what must be so while the API server is away.
func (h *home) holdsOut(t *testing.T, closed, open, deployment *running, known string, strangers []string) {
	t.Helper()
	took := timing.Answers{}
	defer took.Judge(t)
	for i, stranger := range strangers[:10] {
		for what, r := range map[string]*running{"socket": closed, "deployment": deployment} {
			err := took.Time(what+": a stranger", 2200*time.Millisecond, func() error { return r.call(stranger, "") })
			if status.Code(err) != codes.Unavailable || !marked(err) {
				t.Errorf("%s: a stranger: %v, want Unavailable with ErrorInfo", what, err)
			}
			if err := took.Time(what+": a known caller", 500*time.Millisecond, func() error { return r.call(known, "") }); err != nil {
				t.Errorf("%s: a known caller: %v", what, err)
			}
		}
		limit, when := 2200*time.Millisecond, "at first"
		if i > 4 {
			limit, when = 500*time.Millisecond, "the breaker knows"
		}
		if err := took.Time("open, "+when+": about its node", limit, func() error { return open.call(stranger, "") }); err != nil {
			t.Errorf("fail-open, own node: %v", err)
		}
		err := took.Time("open, "+when+": about another", limit, func() error { return open.call(stranger, h.away.Name) })
		if status.Code(err) != codes.Unavailable || marked(err) {
			t.Errorf("fail-open, another node: %v, want Unavailable without ErrorInfo", err)
		}
	}
	if err := took.Time("no token", 500*time.Millisecond, func() error { return closed.call("", "") }); err != nil {
		t.Errorf("a caller without a token: %v", err)
	}
	if got := open.counter(violation("node_mismatch")); got != 0 {
		t.Errorf("%v guesses were counted as abuse", got)
	}
	if closed.get("/readyz") != "ready\n" {
		t.Error("an outage of the API server makes the connector not ready")
	}
}

// TestAStartWhileTheAPIServerIsAway: those who need no review are served, nobody else is believed.
func TestAStartWhileTheAPIServerIsAway(t *testing.T) {
	h := shared.home(t)
	r := h.prepare()
	token := h.of(h.pod("here", monitor, h.node.Name))
	must(t, shared.Pause(cluster.APIServer))
	defer func() { must(t, shared.Resume(cluster.APIServer)) }()
	r.process = r.start()
	t.Cleanup(r.end)
	timing.Within(t, time.Minute, "the socket appears", func() bool {
		r.conn = r.dial()
		r.client = newClient(r.conn)
		return r.call("", "") == nil
	})
	if err := r.call(token, ""); status.Code(err) != codes.Unavailable || !marked(err) {
		t.Errorf("a token: %v, want Unavailable with ErrorInfo", err)
	}
	if r.get("/readyz") == "ready\n" {
		t.Error("ready before the self-test has passed")
	}
	must(t, shared.Resume(cluster.APIServer))
	took := timing.Within(t, 30*time.Second, "the token is accepted", func() bool { return r.call(token, "") == nil })
	t.Logf("accepted %s after the API server was back", took)
}
