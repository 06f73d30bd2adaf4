package connector

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	healtheventv1 "github.com/lanyard-k8s/lanyard/api/healthevent/v1"
	"github.com/lanyard-k8s/lanyard/connector/nodebinding"
	"github.com/lanyard-k8s/lanyard/connector/sink"
)

func TestTheIdempotencyKey(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("k", 128)
	tests := map[string]struct {
		keys []string
		good bool
	}{
		"one": {[]string{"a-B_9.:z"}, true}, "the longest": {[]string{long}, true}, "none": {nil, false}, "two": {[]string{"a", "b"}, false},
		"too long": {[]string{long + "k"}, false}, "empty": {[]string{""}, false}, "a space": {[]string{"a b"}, false}, "a slash": {[]string{"a/b"}, false},
	}
	d := start(t, nodebinding.Deployment)
	token := bearer(d.backend.of(identity{monitor, "pod-1", own, ownUID}))
	s, made := start(t, nodebinding.Socket), map[string]bool{}
	for name, tc := range tests {
		pairs := []string{"x-other", "y"} // so that the rig adds no key of its own
		for _, k := range tc.keys {
			pairs = append(pairs, keyIdempotency, k)
		}
		want := codes.InvalidArgument
		if tc.good {
			want = codes.OK
		}
		before := len(d.intake.all())
		wantCode(t, "deployment, "+name, d.send(t, token, batchOf(""), pairs...), want)
		if tc.good && d.intake.all()[before].Key != tc.keys[0] {
			t.Errorf("%s: the key is lost", name)
		}
		wantCode(t, "socket, "+name, s.send(t, nil, batchOf(""), pairs...), codes.OK)
		all := s.intake.all()
		got := all[len(all)-1].Key
		if tc.good && got != tc.keys[0] || !tc.good && (!plainKey(got) || slices.Contains(tc.keys, got)) || made[got] {
			t.Errorf("socket, %s: key %q", name, got)
		}
		made[got] = true
	}
	wantCode(t, "who may not, without a key", d.send(t, nil, batchOf(""), "x-other", "y"), codes.Unauthenticated)
}

func TestADeploymentThatIsNotReadyTakesNothing(t *testing.T) {
	t.Parallel()
	g := start(t, nodebinding.Deployment, func(s *setup) { s.Ready = func() error { return errors.New("no store") } })
	token := bearer(g.backend.of(identity{monitor, "pod-1", own, ownUID}))
	err := g.call(t, token, "")
	wantCode(t, "not ready", err, codes.Unavailable)
	if marked(err) || len(g.kept()) != 0 {
		t.Errorf("marked %t, kept %v", marked(err), g.kept())
	}
	wantCode(t, "not ready, without a key", g.send(t, token, batchOf(""), "x-other", "y"), codes.InvalidArgument)
}

func TestWhatTheIntakeSaysIsAnswered(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		err  error
		want codes.Code
	}{
		"full":           {errors.New("the spool is full"), codes.Unavailable},
		"to be retried":  {sink.Retry(sink.Busy, errors.New("x")), codes.Unavailable},
		"refused":        {sink.Final(sink.CrossNode, nodebinding.PermissionDenied, errors.New("x")), codes.PermissionDenied},
		"in vain":        {context.DeadlineExceeded, codes.DeadlineExceeded},
		"final as OK":    {sink.Final(sink.Refused, nodebinding.OK, errors.New("x")), codes.Unavailable},
		"final, no code": {sink.Final(sink.Refused, nodebinding.Undecided, errors.New("x")), codes.Internal},
	} {
		g := start(t, nodebinding.Socket, func(s *setup) { s.Intake.(*remembering).err = tc.err })
		err := g.call(t, nil, "")
		wantCode(t, name, err, tc.want)
		if marked(err) {
			t.Errorf("%s: bears the mark of an outage of the review", name)
		}
	}
}

func TestACallIsBounded(t *testing.T) {
	t.Parallel()
	g := start(t, nodebinding.Socket, func(s *setup) { s.Intake.(*remembering).hold = make(chan struct{}); s.Timeout = 50 * time.Millisecond })
	begin := time.Now()
	wantCode(t, "a stuck intake", g.call(t, nil, ""), codes.DeadlineExceeded)
	if took := time.Since(begin); took > 10*time.Second {
		t.Errorf("answered after %s", took)
	}
}

func TestOverridesNeedAToken(t *testing.T) {
	t.Parallel()
	overriding := func() *healtheventv1.HealthEvents {
		b := batchOf("")
		b.Events[0].QuarantineOverrides = &healtheventv1.BehaviourOverrides{Force: true}
		b.Events[0].DrainOverrides = &healtheventv1.BehaviourOverrides{Skip: true}
		return b
	}
	for name, tc := range map[string]struct {
		need, audit bool
		header      func(*rig) []string
		kept        bool
	}{
		"by default everybody's are kept":   {header: none, kept: true},
		"without a token":                   {need: true, header: none},
		"with one":                          {need: true, header: identified(identity{monitor, "p", own, ownUID}), kept: true},
		"with garbage that audit lets pass": {need: true, audit: true, header: malformed},
		"in a guessed scope":                {need: true, header: failing(errReset)},
	} {
		g := start(t, nodebinding.Socket, func(s *setup) {
			s.OverridesNeedToken, s.Rules.FailOpen = tc.need, true
			if tc.audit {
				s.Mode = nodebinding.Audit
			}
		})
		must(t, g.send(t, tc.header(g), overriding()))
		e := g.intake.all()[0].Events[0]
		if got := e.QuarantineOverrides != nil && e.DrainOverrides != nil; got != tc.kept {
			t.Errorf("%s: kept = %t", name, got)
		}
		if got := g.counts(t, "lanyard_connector_overrides_dropped_total")[""] == 0; got != tc.kept {
			t.Errorf("%s: counted wrongly", name)
		}
	}
}

func TestASocketMayRequireATokenAndRefuseOtherNodes(t *testing.T) {
	t.Parallel()
	g := start(t, nodebinding.Socket, func(s *setup) { s.Rules.RequireToken, s.NodeLocalOnly = true, true })
	wantCode(t, "no token", g.call(t, nil, ""), codes.Unauthenticated)
	must(t, g.call(t, bearer(g.backend.of(identity{monitor, "p", own, ownUID})), ""))
	wantCode(t, "cross-node to a sink of one node", g.call(t, bearer(g.backend.of(identity{listed, "p", own, ownUID})), foreign), codes.PermissionDenied)
}

func TestWhoMadeTheCall(t *testing.T) {
	t.Parallel()
	g := start(t, nodebinding.Socket)
	must(t, g.call(t, bearer(g.backend.of(identity{listed, "pod-9", own, ownUID})), foreign))
	must(t, g.call(t, nil, ""))
	want := []sink.Batch{
		{Caller: sink.Caller{Username: listed, PodUID: "pod-9", Node: own, NodeUID: ownUID}, Scope: nodebinding.CrossNode},
		{Scope: nodebinding.NodeLocal},
	}
	if runtime.GOOS == "linux" { // whose kernel tells
		want[1].User = fmt.Sprint("user ", os.Geteuid())
	}
	got := g.intake.all()
	for i := range got {
		got[i].Events, got[i].Received, got[i].Key = nil, time.Time{}, ""
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("batches (-want +got):\n%s", diff)
	}
}

func TestADeskNeedsItsParts(t *testing.T) {
	t.Parallel()
	good := start(t, nodebinding.Socket).Options
	for name, tc := range map[string]struct {
		change func(*Options)
		want   string
	}{
		"an intake":  {func(o *Options) { o.Intake = nil }, "an intake, metrics or the list of violations is missing"},
		"metrics":    {func(o *Options) { o.Metrics = nil }, "an intake, metrics or the list of violations is missing"},
		"a list":     {func(o *Options) { o.Recent = nil }, "an intake, metrics or the list of violations is missing"},
		"a reviewer": {func(o *Options) { o.Reviewer = nil }, "a reviewer is missing"},
		"a role":     {func(o *Options) { o.Rules.Role = "" }, "a role or a mode is missing"},
		"a mode":     {func(o *Options) { o.Mode = "" }, "a role or a mode is missing"},
		"a bound":    {func(o *Options) { o.Timeout = 0 }, "a call must be bounded"},
	} {
		o := good
		tc.change(&o)
		if _, err := NewDesk(o); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("a desk without %s: %v, want %q", name, err, tc.want)
		}
	}
}

func TestTheSpoolsBatchesAreDecidedAgain(t *testing.T) {
	t.Parallel()
	rules := nodebinding.Rules{Role: nodebinding.Socket, OwnNode: own, CrossNode: nodebinding.NewAccounts(listed), RequireToken: true}
	pod := sink.Caller{Username: monitor, PodUID: "p", Node: own, NodeUID: ownUID}
	csp := sink.Caller{Username: listed, PodUID: "p", Node: own, NodeUID: ownUID}
	batch := func(c sink.Caller, s nodebinding.Scope, names ...string) sink.Batch {
		return sink.NewBatch(batchOf(names...).Events, c, s, time.Time{})
	}
	for name, tc := range map[string]struct {
		mode  nodebinding.Mode
		batch sink.Batch
		want  string
	}{
		"own node":                          {nodebinding.Enforce, batch(pod, nodebinding.NodeLocal, own), ""},
		"nobody's, taken in an outage":      {nodebinding.Enforce, batch(sink.Caller{}, nodebinding.NodeLocal, own), ""},
		"another node":                      {nodebinding.Enforce, batch(pod, nodebinding.NodeLocal, foreign), "node_mismatch"},
		"another node, in audit":            {nodebinding.Audit, batch(sink.Caller{}, nodebinding.NodeLocal, foreign), ""},
		"a blank name":                      {nodebinding.Enforce, batch(pod, nodebinding.NodeLocal, ""), "names no node"},
		"a listed caller":                   {nodebinding.Enforce, batch(csp, nodebinding.CrossNode, foreign), ""},
		"one that is no longer listed":      {nodebinding.Enforce, batch(pod, nodebinding.CrossNode, foreign), "node_mismatch"},
		"a forged scope about the own node": {nodebinding.Enforce, batch(pod, nodebinding.CrossNode, own), "no longer name other nodes"},
		"a caller of another node":          {nodebinding.Enforce, batch(sink.Caller{Username: listed, PodUID: "p", Node: foreign}, nodebinding.CrossNode, foreign), "node_claim_mismatch"},
		"while node binding is off":         {nodebinding.Disabled, batch(sink.Caller{}, "", foreign), ""},
		"taken while it was off":            {nodebinding.Enforce, batch(sink.Caller{}, "", foreign), "node_mismatch"},
	} {
		err := Again(rules, tc.mode)(tc.batch)
		if got := err != nil; got != (tc.want != "") || got && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
}

func TestAnUnknownErrorIsNoOutage(t *testing.T) {
	t.Parallel()
	if code, _ := failed(errors.New("something new")); code != nodebinding.Internal {
		t.Errorf("code = %s", code)
	}
	if status.Code(answerTo(nodebinding.Outcome{})) != codes.Internal {
		t.Error("the zero outcome is not Internal")
	}
}
