package connector

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/lanyard-k8s/lanyard/connector/nodebinding"
	"github.com/lanyard-k8s/lanyard/internal/obs"
)

func TestRecentViolationsAreBoundedAndCounted(t *testing.T) {
	t.Parallel()
	r, now := NewRecent(), time.Unix(1_800_000_000, 0)
	for i := range 2 * recentMost {
		r.add(Violation{Reason: nodebinding.NodeMismatch, Caller: monitor, User: 7, Named: foreign}, now.Add(time.Duration(i)*time.Second))
		r.add(Violation{Reason: nodebinding.TokenInvalid, PodUID: strconv.Itoa(i)}, now.Add(time.Duration(i)*time.Second))
	}
	list := r.List()
	if len(list) != recentMost {
		t.Fatalf("%d entries, want %d", len(list), recentMost)
	}
	for _, v := range list {
		if v.Reason == nodebinding.NodeMismatch {
			if v.Count != 2*recentMost || !v.First.Equal(now) || v.Named != foreign || v.User != 7 {
				t.Errorf("the frequent one is %+v", v)
			}
			return
		}
	}
	t.Error("the frequent one was pushed out")
}

func TestTheDebugPageIsForTheLoopbackAlone(t *testing.T) {
	t.Parallel()
	r := NewRecent()
	r.add(Violation{Reason: nodebinding.NodeMismatch, Caller: monitor}, time.Now())
	for name, tc := range map[string]struct {
		remote, host string
		want         int
	}{
		"from here":                {"127.0.0.1:5", "127.0.0.1:2112", http.StatusOK},
		"from here, IPv6":          {"[::1]:5", "localhost:2112", http.StatusOK},
		"from here, mapped":        {"[::ffff:127.0.0.1]:5", "localhost", http.StatusOK},
		"from elsewhere":           {"10.0.0.1:5", "127.0.0.1:2112", http.StatusForbidden},
		"by a browser led astray":  {"127.0.0.1:5", "evil.example:2112", http.StatusForbidden},
		"from nowhere":             {"", "localhost", http.StatusForbidden},
		"from a name, not an addr": {"evil.example:5", "localhost", http.StatusForbidden},
	} {
		req := httptest.NewRequest(http.MethodGet, "/debug/violations", nil)
		req.RemoteAddr, req.Host = tc.remote, tc.host
		w := httptest.NewRecorder()
		r.ServeHTTP(w, req)
		if w.Code != tc.want {
			t.Errorf("%s: %d, want %d", name, w.Code, tc.want)
		}
		if shows := strings.Contains(w.Body.String(), monitor); shows != (tc.want == http.StatusOK) {
			t.Errorf("%s: %s", name, w.Body)
		}
	}
}

func TestTheListSaysWhomEnforceWouldBreak(t *testing.T) {
	t.Parallel()
	g := start(t, nodebinding.Socket, func(s *setup) { s.Mode = nodebinding.Audit })
	must(t, g.call(t, bearer(g.backend.of(identity{monitor, "pod-1", own, ownUID})), foreign))
	must(t, g.call(t, nil, foreign))
	raw, err := json.Marshal(g.Recent.List())
	must(t, err)
	text := string(raw)
	for _, want := range []string{`"caller":"` + monitor + `"`, `"podUID":"pod-1"`, `"named":"` + foreign + `"`, `"letThrough":true`, `"user":`} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in %s", want, text)
		}
	}
}

func TestLinesAboutRefusalsAreFew(t *testing.T) {
	t.Parallel()
	logs := &safeBuffer{}
	log, err := obs.NewLogger(logs, "info")
	must(t, err)
	r := newRefusals(log)
	for range 1000 {
		r.note(Violation{Reason: nodebinding.NodeMismatch}, nodebinding.PermissionDenied, nil)
	}
	r.note(Violation{Reason: nodebinding.ValidatorError}, nodebinding.Internal, errReset)
	lines := strings.Split(strings.TrimSpace(logs.String()), "\n")
	if n := len(lines); n < refusalsAtOnce+1 || n > refusalsAtOnce+5 {
		t.Errorf("%d lines", n)
	}
	last := lines[len(lines)-1]
	if !strings.Contains(last, `"level":"error"`) || !strings.Contains(last, "validator_error") {
		t.Errorf("a review without a verdict is logged as %s", last)
	}
}

// TestEverySeriesIsThereFromTheStart also lints the metrics' names and texts.
func TestEverySeriesIsThereFromTheStart(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	m, err := NewMetrics(reg)
	must(t, err)
	for name, want := range map[string]int{
		"platform_connector_auth_decisions_total":  len(nodebinding.Scopes()),
		"platform_connector_auth_violations_total": len(nodebinding.Reasons()),
		"platform_connector_auth_node_claim_total": len(nodebinding.Claims()),
		"lanyard_connector_batches_total":          4,
		"lanyard_connector_events_total":           3,
	} {
		if got, err := testutil.GatherAndCount(reg, name); err != nil || got != want {
			t.Errorf("%s: %d series (%v), want %d", name, got, err, want)
		}
	}
	m.Sinks("log", "store")
	must(t, m.Observe(reg, Gauges{Cached: func() int { return 1 }, Down: func() bool { return true }, Ready: func() bool { return true }, Pods: watch{}, Nodes: watch{}}))
	problems, err := testutil.GatherAndLint(reg)
	must(t, err)
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	if _, err := NewMetrics(reg); err == nil {
		t.Error("registered twice")
	}
}

type watch struct{}

func (watch) Trusted(time.Time) bool      { return true }
func (watch) Age(time.Time) time.Duration { return time.Second }
