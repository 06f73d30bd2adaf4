package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	healtheventv1 "github.com/lanyard-k8s/lanyard/api/healthevent/v1"
	"github.com/lanyard-k8s/lanyard/connector/sink"
)

func deliver(t *testing.T, r *rig, b sink.Batch, want sink.Report) {
	t.Helper()
	got, err := r.sink.Deliver(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("report (-want +got):\n%s", diff)
	}
}

func TestEventsGoToTheirNodes(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, "node-a", "node-b")
	stored := fatal("node-a", "1")
	stored.ProcessingStrategy = healtheventv1.ProcessingStrategy_STORE_ONLY
	ready := fatal("node-a", "1")
	ready.CheckName = "Ready"
	deliver(t, r, batch(verified, fatal("node-b", "0"), fatal("node-a", "0"), stored, ready, fatal("gone", "0"), fatal("No Node", "0"), fatal("", "0"), fatal("node-b", "1")),
		sink.Report{sink.Written: 3, sink.Skipped: 1, sink.RefusedForeign: 1, sink.RefusedNode: 3})
	const one = "GPU:0 off the bus Recommended Action=NONE"
	for node, want := range map[string]string{"node-a": "True " + one, "node-b": "True " + one + ";GPU:1 off the bus Recommended Action=NONE"} {
		if diff := cmp.Diff(want, r.condition(t, node, "GpuXid")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", node, diff)
		}
		if got := r.condition(t, node, "Ready"); got != "True " {
			t.Errorf("%s is ready: %q", node, got)
		}
	}
}

func TestASocketConnectorWritesToItsOwnNodeAlone(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *Options) { o.OwnNode = "node-a" }, "node-a", "node-b")
	deliver(t, r, batch(verified, fatal("node-b", "0"), warning("node-b", "hot"), fatal("node-a", "0")), sink.Report{sink.Written: 1, sink.RefusedNode: 2})
	if diff := cmp.Diff([]string{"list nodes", "patch nodes/status"}, r.calls()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestNothingIsWrittenWhenNothingChanges(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, "node-a")
	deliver(t, r, batch(verified, fatal("node-a", "0")), sink.Report{sink.Written: 1})
	r.calls()
	deliver(t, r, batch(verified, fatal("node-a", "0")), sink.Report{sink.Unchanged: 1})
	if calls := r.calls(); len(calls) > 0 {
		t.Errorf("what is known already is asked for: %v", calls)
	}
	r.pass(knownFor)
	deliver(t, r, batch(verified, fatal("node-a", "0")), sink.Report{sink.Unchanged: 1})
	if diff := cmp.Diff([]string{"list nodes"}, r.calls()); diff != "" {
		t.Errorf("after a while (-want +got):\n%s", diff)
	}
}

func TestOthersMayBeFaster(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, "node-a")
	r.refuse("patch", "nodes", 2, conflict())
	deliver(t, r, batch(verified, fatal("node-a", "0")), sink.Report{sink.Written: 1})
	want := []string{"list nodes", "patch nodes/status", "list nodes", "patch nodes/status", "list nodes", "patch nodes/status"}
	if diff := cmp.Diff(want, r.calls()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	r.refuse("patch", "nodes", -1, conflict())
	_, err := r.sink.Deliver(t.Context(), batch(verified, fatal("node-a", "1")))
	if e := sink.Classify(err); e == nil || e.Final || e.Reason != sink.Conflict {
		t.Errorf("got %v", err)
	}
}

func TestWritesAreBounded(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, "node-a")
	sick, turn := false, 0
	flood := func(username string) (n int) {
		for range 100 {
			e := fatal("node-a", "0")
			if turn++; turn%3 == 1 { // three checks, since one alone may not take all
				sick = !sick
			}
			e.IsHealthy, e.CheckName = !sick, fmt.Sprint("Gpu", turn%3)
			_, err := r.sink.Deliver(t.Context(), batch(username, e))
			if err != nil {
				if e := sink.Classify(err); e.Final || e.Reason != sink.Throttled {
					t.Fatal(err)
				}
				if turn%3 == 1 {
					sick = !sick
				}
				turn--
				return n
			}
			n++
		}
		return n
	}
	if n := flood(""); n != 24 {
		t.Errorf("callers without a token write %d times, want three quarters of 32", n)
	}
	if n := flood(verified); n != 8 {
		t.Errorf("verified callers write %d times, want the last quarter", n)
	}
	r.pass(59 * time.Second)
	if n := flood(verified); n != 0 {
		t.Errorf("%d writes within the minute", n)
	}
	r.pass(time.Second)
	if n := flood(verified); n != 32 {
		t.Errorf("%d writes in the next minute", n)
	}
}

func events(t *testing.T, r *rig) map[string]int32 {
	t.Helper()
	list, err := r.client.CoreV1().Events("default").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]int32{}
	for _, e := range list.Items {
		if e.Type != corev1.EventTypeWarning || e.InvolvedObject.Kind != "Node" || e.InvolvedObject.Name != "node-a" || e.InvolvedObject.UID != "uid-1" ||
			e.Source.Component != controller || e.Annotations[annotationAgent] != "monitor" {
			t.Errorf("Event %+v", e)
		}
		out[e.Reason+" "+e.Message] = e.Count
	}
	r.client.ClearActions()
	return out
}

func TestRepeatedEventsAreCounted(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, "node-a")
	hot := batch("", warning("node-a", "hot"), warning("node-a", "hot"), warning("node-a", "hotter"))
	deliver(t, r, hot, sink.Report{sink.Written: 3})
	deliver(t, r, hot, sink.Report{sink.Written: 3})
	want := map[string]int32{"GpuTempIsNotHealthy hot Recommended Action=NONE": 4, "GpuTempIsNotHealthy hotter Recommended Action=NONE": 2}
	if diff := cmp.Diff(want, events(t, r)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	t.Run("by the next process too", func(t *testing.T) {
		r.sink, _ = New(r.sink.o)
		deliver(t, r, hot, sink.Report{sink.Written: 3})
		want["GpuTempIsNotHealthy hot Recommended Action=NONE"], want["GpuTempIsNotHealthy hotter Recommended Action=NONE"] = 6, 3
		if diff := cmp.Diff(want, events(t, r)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
	t.Run("and begin again when the API server has forgotten them", func(t *testing.T) {
		for name := range r.sink.nodes["node-a"].recorded {
			if err := r.client.CoreV1().Events("default").Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		deliver(t, r, hot, sink.Report{sink.Written: 3})
		want["GpuTempIsNotHealthy hot Recommended Action=NONE"], want["GpuTempIsNotHealthy hotter Recommended Action=NONE"] = 2, 1
		if diff := cmp.Diff(want, events(t, r)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// TestTheLastConditionsAndEventsAreForVerifiedCallers floods a node with checks that nobody knows, from nobody.
func TestTheLastConditionsAndEventsAreForVerifiedCallers(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, "node-a")
	check := func(i int) *healtheventv1.HealthEvent {
		e := fatal("node-a", "0")
		e.CheckName = fmt.Sprint("Check", i)
		return e
	}
	var flood, real, talk []*healtheventv1.HealthEvent
	for i := range 70 {
		flood = append(flood, check(i))
		e := warning("node-a", fmt.Sprint("text ", i))
		e.CheckName = fmt.Sprint("Talk", i)
		talk = append(talk, e)
	}
	deliver(t, r, batch("", flood...), sink.Report{sink.Written: 48, sink.RefusedConditions: 22})
	for i := range 20 {
		real = append(real, check(100+i))
	}
	deliver(t, r, batch(verified, real...), sink.Report{sink.Written: 16, sink.RefusedConditions: 4})
	deliver(t, r, batch("", talk[:20]...), sink.Report{sink.Written: 12, sink.RefusedRate: 8})
	deliver(t, r, batch(verified, talk[20:30]...), sink.Report{sink.Written: 4, sink.RefusedRate: 6})
}

func TestEventsAreBounded(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, "node-a")
	var all []*healtheventv1.HealthEvent
	for i := range 20 {
		e := warning("node-a", fmt.Sprint("text ", i))
		e.CheckName = fmt.Sprint("Gpu", i%2)
		all = append(all, e)
	}
	deliver(t, r, batch(verified, all...), sink.Report{sink.Written: 16, sink.RefusedRate: 4})
	if n := len(events(t, r)); n != 16 {
		t.Errorf("%d Events", n)
	}
	r.pass(time.Minute)
	deliver(t, r, batch(verified, all[19]), sink.Report{sink.Written: 1})
	none := newRig(t, func(o *Options) { o.Events = 0 }, "node-a")
	deliver(t, none, batch(verified, all[0]), sink.Report{sink.RefusedRate: 1})
}

// TestOneCheckLeavesHalfToTheOthers: a check that comes and goes, or has a new text each time, takes half of a node's writes and Events.
func TestOneCheckLeavesHalfToTheOthers(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		username     string
		writes, most int // of one check, and of all
		events       int
	}{
		"without a token": {"", 12, 24, 6},
		"with one":        {verified, 16, 32, 8},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, nil, "node-a")
			flap := func(check string) (n int) {
				for i := range 100 {
					e := fatal("node-a", "0")
					e.CheckName, e.IsHealthy = check, i%2 == 1
					_, err := r.sink.Deliver(t.Context(), batch(tc.username, e))
					if err != nil {
						if e := sink.Classify(err); e.Final || e.Reason != sink.Throttled {
							t.Fatal(err)
						}
						return n
					}
					n++
				}
				return n
			}
			if n := flap("Flapping"); n != tc.writes {
				t.Errorf("one check is written %d times, want %d", n, tc.writes)
			}
			// A batch about both is offered again, and what it says of the other check is written already.
			both, other := fatal("node-a", "1"), fatal("node-a", "2")
			both.CheckName, other.CheckName = "Flapping", "Steady"
			_, err := r.sink.Deliver(t.Context(), batch(tc.username, both, other))
			if e := sink.Classify(err); e == nil || e.Reason != sink.Throttled {
				t.Errorf("both: %v, want that it is throttled", err)
			}
			if got := r.condition(t, "node-a", "Steady"); !strings.HasPrefix(got, "True") {
				t.Errorf("the other check: %q", got)
			}
			if n := flap("Others") + 1 + tc.writes; n > tc.most || n < tc.most-1 {
				t.Errorf("%d writes of all, want %d", n, tc.most)
			}
			var all []*healtheventv1.HealthEvent
			for i := range 20 {
				all = append(all, warning("node-a", fmt.Sprint("text ", i)))
			}
			deliver(t, r, batch(tc.username, all...), sink.Report{sink.Written: tc.events, sink.RefusedRate: 20 - tc.events})
			rare := warning("node-a", "seldom")
			rare.CheckName = "Rare"
			deliver(t, r, batch(tc.username, rare), sink.Report{sink.Written: 1})
			r.pass(time.Minute)
			deliver(t, r, batch(tc.username, all[19]), sink.Report{sink.Written: 1})
		})
	}
}

func TestAnswersOfTheAPIServer(t *testing.T) {
	t.Parallel()
	nodes := schema.GroupResource{Resource: "nodes"}
	for name, tc := range map[string]struct {
		err         error
		want        sink.Reason // "" means that it is counted
		wantOutcome sink.Outcome
	}{
		"no such node":          {apierrors.NewNotFound(nodes, "node-a"), "", sink.RefusedNode},
		"an invalid object":     {apierrors.NewInvalid(schema.GroupKind{Kind: "Node"}, "node-a", nil), "", sink.RefusedByServer},
		"a policy's refusal":    {apierrors.NewForbidden(nodes, "node-a", errors.New("ValidatingAdmissionPolicy 'lanyard-node-status' denied request")), "", sink.RefusedByServer},
		"another's policy":      {apierrors.NewForbidden(nodes, "node-a", errors.New("ValidatingAdmissionPolicy 'hands-off' with binding 'hands-off' denied request: no")), "", sink.RefusedByServer},
		"another's webhook":     {apierrors.NewForbidden(nodes, "node-a", errors.New(`admission webhook "nodes.example.com" denied the request: no`)), "", sink.RefusedByServer},
		"a missing right":       {apierrors.NewForbidden(nodes, "node-a", errors.New("cannot patch")), sink.Unauthorized, ""},
		"a token that ended":    {apierrors.NewUnauthorized("no"), sink.Unauthorized, ""},
		"too many requests":     {apierrors.NewTooManyRequestsError("later"), sink.Busy, ""},
		"a server that is busy": {apierrors.NewServerTimeout(nodes, "patch", 1), sink.Busy, ""},
		"an error inside":       {apierrors.NewInternalError(errors.New("etcd")), sink.Internal, ""},
		"nobody there":          {errors.New("connection refused"), sink.Unreachable, ""},
		"no answer in time":     {context.DeadlineExceeded, sink.Timeout, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for verb, e := range map[string]*healtheventv1.HealthEvent{"list nodes": fatal("node-a", "0"), "patch nodes": fatal("node-a", "0"), "create events": warning("node-a", "hot")} {
				r := newRig(t, nil, "node-a", "node-b")
				var v, resource string
				if _, err := fmt.Sscan(verb, &v, &resource); err != nil {
					t.Fatal(err)
				}
				r.refuse(v, resource, 1, tc.err)
				report, err := r.sink.Deliver(t.Context(), batch(verified, e, fatal("node-b", "0")))
				if tc.want == "" {
					if diff := cmp.Diff(sink.Report{tc.wantOutcome: 1, sink.Written: 1}, report); diff != "" || err != nil {
						t.Errorf("%s: %v (-want +got):\n%s", verb, err, diff)
					}
					continue
				}
				if got := sink.Classify(err); got == nil || got.Final || got.Reason != tc.want {
					t.Errorf("%s: got %v", verb, err)
				}
			}
		})
	}
}

func TestOnlySoManyNodesAreRemembered(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	for i := range nodesMost + 10 {
		r.pass(time.Millisecond)
		r.sink.node(fmt.Sprint("node-", i))
	}
	if n := len(r.sink.nodes); n != nodesMost {
		t.Errorf("%d nodes are remembered", n)
	}
	if r.sink.nodes["node-9"] != nil || r.sink.nodes["node-10"] == nil {
		t.Error("others are forgotten than those that were used least recently")
	}
}

func TestANodeThatIsInUseIsWaitedFor(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil, "node-a")
	if err := r.sink.node("node-a").lock(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	_, err := r.sink.Deliver(ctx, batch(verified, fatal("node-a", "0")))
	if e := sink.Classify(err); e == nil || e.Reason != sink.Timeout {
		t.Errorf("got %v", err)
	}
}

func TestOptions(t *testing.T) {
	t.Parallel()
	good := newRig(t, nil).sink.o
	const parts, bounds = "a client and a reporter's name must be given", "the bounds for conditions, writes and Events must be given"
	for name, tc := range map[string]struct {
		spoil func(*Options)
		want  string
	}{
		"no client":              {func(o *Options) { o.Client = nil }, parts},
		"no reporter":            {func(o *Options) { o.Reporter = "" }, parts},
		"no conditions":          {func(o *Options) { o.Conditions = 0 }, bounds},
		"no writes":              {func(o *Options) { o.Writes = 0 }, bounds},
		"fewer Events than none": {func(o *Options) { o.Events = -1 }, bounds},
	} {
		o := good
		tc.spoil(&o)
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
}
