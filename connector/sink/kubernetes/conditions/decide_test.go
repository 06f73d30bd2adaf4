package conditions

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/timestamppb"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	healtheventv1 "github.com/lanyard-k8s/lanyard/api/healthevent/v1"
	"github.com/lanyard-k8s/lanyard/connector/sink"
)

func now() time.Time { return time.Unix(1_700_000_000, 0).UTC() }

func rules() Rules { return Rules{Foreign: []string{"KernelDeadlock"}, Most: 64} }

// event is a fatal one unless a test changes it.
func event(change func(*healtheventv1.HealthEvent)) *healtheventv1.HealthEvent {
	e := &healtheventv1.HealthEvent{
		Agent: "monitor", CheckName: "GpuXid", IsFatal: true, Message: "off the bus", ErrorCode: []string{"79"},
		EntitiesImpacted:  []*healtheventv1.Entity{{EntityType: "GPU", EntityValue: "0"}},
		RecommendedAction: healtheventv1.RecommendedAction_RESTART_BM, GeneratedTimestamp: timestamppb.New(now().Add(-time.Minute)),
	}
	if change != nil {
		change(e)
	}
	return e
}

func gpu(n string) func(*healtheventv1.HealthEvent) {
	return func(e *healtheventv1.HealthEvent) { e.EntitiesImpacted[0].EntityValue = n }
}

func healthy(entities ...*healtheventv1.Entity) *healtheventv1.HealthEvent {
	return &healtheventv1.HealthEvent{CheckName: "GpuXid", IsHealthy: true, EntitiesImpacted: entities}
}

func entity(typ, value string) *healtheventv1.Entity {
	return &healtheventv1.Entity{EntityType: typ, EntityValue: value}
}

// standing is a condition of ours that has stood for an hour.
func standing(message string) corev1.NodeCondition {
	before := metav1.NewTime(now().Add(-time.Hour))
	c := corev1.NodeCondition{
		Type: "GpuXid", Status: corev1.ConditionTrue, Reason: "GpuXidIsNotHealthy", Message: message, LastHeartbeatTime: before, LastTransitionTime: before,
	}
	if message == Healthy {
		c.Status, c.Reason = corev1.ConditionFalse, "GpuXidIsHealthy"
	}
	return c
}

const (
	gpu0 = "ErrorCode:79 GPU:0 off the bus Recommended Action=RESTART_BM"
	gpu1 = "ErrorCode:79 GPU:1 off the bus Recommended Action=RESTART_BM"
)

func TestDecide(t *testing.T) {
	t.Parallel()
	type events = []*healtheventv1.HealthEvent
	for name, tc := range map[string]struct {
		current []corev1.NodeCondition
		events  events
		want    string // status, then the message; "" is no change
		flips   bool
		outcome sink.Outcome // of the last event
	}{
		"a fault on a healthy node":                      {nil, events{event(nil)}, "True " + gpu0, true, sink.Written},
		"a fault after health":                           {[]corev1.NodeCondition{standing(Healthy)}, events{event(nil)}, "True " + gpu0, true, sink.Written},
		"a second fault":                                 {[]corev1.NodeCondition{standing(gpu0)}, events{event(gpu("1"))}, "True " + gpu0 + ";" + gpu1, false, sink.Written},
		"the same fault again":                           {[]corev1.NodeCondition{standing(gpu0)}, events{event(nil)}, "", false, sink.Unchanged},
		"the same fault with another text":               {[]corev1.NodeCondition{standing(gpu0)}, events{event(func(e *healtheventv1.HealthEvent) { e.Message = "still off" })}, "True ErrorCode:79 GPU:0 still off Recommended Action=RESTART_BM", false, sink.Written},
		"health without entities":                        {[]corev1.NodeCondition{standing(gpu0 + ";" + gpu1)}, events{healthy()}, "False " + Healthy, true, sink.Written},
		"health of one entity":                           {[]corev1.NodeCondition{standing(gpu0 + ";" + gpu1)}, events{healthy(entity("GPU", "0"))}, "True " + gpu1, false, sink.Written},
		"health of the last entity":                      {[]corev1.NodeCondition{standing(gpu0)}, events{healthy(entity("GPU", "0"))}, "False " + Healthy, true, sink.Written},
		"health of another entity":                       {[]corev1.NodeCondition{standing(gpu0)}, events{healthy(entity("GPU", "7"))}, "", false, sink.Unchanged},
		"health of more than a fault names":              {[]corev1.NodeCondition{standing(gpu0)}, events{healthy(entity("GPU", "0"), entity("PCI", "0000:3b:00.0"))}, "", false, sink.Unchanged},
		"health of part of what a fault has":             {[]corev1.NodeCondition{standing("GPU:0 PCI:0000:3b:00.0 x Recommended Action=NONE")}, events{healthy(entity("PCI", "0000:3b:00.0"))}, "False " + Healthy, true, sink.Written},
		"health of an entity with a code of the fault's": {[]corev1.NodeCondition{standing(gpu0)}, events{{CheckName: "GpuXid", IsHealthy: true, ErrorCode: []string{"48", "79"}, EntitiesImpacted: []*healtheventv1.Entity{entity("GPU", "0")}}}, "False " + Healthy, true, sink.Written},
		"health of an entity with another code":          {[]corev1.NodeCondition{standing(gpu0)}, events{{CheckName: "GpuXid", IsHealthy: true, ErrorCode: []string{"48"}, EntitiesImpacted: []*healtheventv1.Entity{entity("GPU", "0")}}}, "", false, sink.Unchanged},
		"health on a node without the condition":         {nil, events{healthy()}, "False " + Healthy, true, sink.Written},
		"health again":                                   {[]corev1.NodeCondition{standing(Healthy)}, events{healthy()}, "", false, sink.Unchanged},
		"a fault and its end in one batch":               {[]corev1.NodeCondition{standing(Healthy)}, events{event(nil), healthy()}, "", false, sink.Written},
		"an end and a fault in one batch":                {[]corev1.NodeCondition{standing(gpu0)}, events{healthy(), event(gpu("1"))}, "True " + gpu1, false, sink.Written},
		"healthy counts before fatal":                    {[]corev1.NodeCondition{standing(gpu0)}, events{event(func(e *healtheventv1.HealthEvent) { e.IsHealthy = true })}, "False " + Healthy, true, sink.Written},
		"a message as another product ends it":           {[]corev1.NodeCondition{standing(gpu0 + ";")}, events{event(gpu("1"))}, "True " + gpu0 + ";" + gpu1, false, sink.Written},
		"what is only to be stored":                      {nil, events{event(func(e *healtheventv1.HealthEvent) { e.ProcessingStrategy = 2 })}, "", false, sink.Skipped},
		"what is to be analysed":                         {nil, events{event(func(e *healtheventv1.HealthEvent) { e.ProcessingStrategy = 3 })}, "", false, sink.Skipped},
		"what is to be done nobody knows":                {nil, events{event(func(e *healtheventv1.HealthEvent) { e.ProcessingStrategy = 9 })}, "", false, sink.Skipped},
		"what is to be remedied":                         {nil, events{event(func(e *healtheventv1.HealthEvent) { e.ProcessingStrategy = 1 })}, "True " + gpu0, true, sink.Written},
		"a custom action":                                {nil, events{event(func(e *healtheventv1.HealthEvent) { e.RecommendedAction, e.CustomRecommendedAction = 27, "page us" })}, "True ErrorCode:79 GPU:0 off the bus Recommended Action=page%20us", true, sink.Written},
		"an action that has no name":                     {nil, events{event(func(e *healtheventv1.HealthEvent) { e.RecommendedAction = 4711 })}, "True ErrorCode:79 GPU:0 off the bus Recommended Action=4711", true, sink.Written},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			plan := Decide(rules(), tc.current, tc.events, now())
			got := ""
			for _, c := range plan.Conditions {
				got += string(c.Status) + " " + c.Message
				if flipped := !c.LastTransitionTime.Time.Equal(now().Add(-time.Hour)); flipped != tc.flips {
					t.Errorf("the last transition is %s", c.LastTransitionTime)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if got := plan.Outcomes[len(plan.Outcomes)-1]; got != tc.outcome || len(plan.Events) > 0 {
				t.Errorf("outcome %s, Events %v", got, plan.Events)
			}
		})
	}
}

func TestTimes(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		generated *timestamppb.Timestamp
		want      time.Time
	}{
		"when the publisher says":  {timestamppb.New(now().Add(-time.Minute)), now().Add(-time.Minute)},
		"now when it says nothing": {nil, now()},
		"now when it is to come":   {timestamppb.New(now().Add(time.Hour)), now()},
		"now when it is no time":   {&timestamppb.Timestamp{Seconds: 1 << 60}, now()},
		"now when it is 1970":      {&timestamppb.Timestamp{}, now()},
	} {
		e := event(func(e *healtheventv1.HealthEvent) { e.GeneratedTimestamp = tc.generated })
		c := Decide(rules(), nil, []*healtheventv1.HealthEvent{e}, now()).Conditions[0]
		if !c.LastHeartbeatTime.Time.Equal(tc.want) || !c.LastTransitionTime.Time.Equal(tc.want) {
			t.Errorf("%s: %s, %s", name, c.LastHeartbeatTime, c.LastTransitionTime)
		}
	}
	old := event(func(e *healtheventv1.HealthEvent) {
		e.GeneratedTimestamp = timestamppb.New(now().Add(-2 * time.Hour))
		gpu("1")(e)
	})
	c := Decide(rules(), []corev1.NodeCondition{standing(gpu0)}, []*healtheventv1.HealthEvent{old}, now()).Conditions[0]
	if !c.LastHeartbeatTime.Time.Equal(now().Add(-time.Hour)) {
		t.Errorf("the heartbeat went back to %s", c.LastHeartbeatTime)
	}
}

func TestOnlyWhatIsOursIsTouched(t *testing.T) {
	t.Parallel()
	foreign := standing(gpu0)
	foreign.Reason = "SomebodyElses"
	for name, tc := range map[string]struct {
		check   string
		current []corev1.NodeCondition
		want    sink.Outcome
	}{
		"the kubelet's":                  {"Ready", nil, sink.RefusedForeign},
		"the kubelet's in other letters": {"readY", nil, sink.RefusedForeign},
		"its pressure":                   {"MemoryPressure", nil, sink.RefusedForeign},
		"a type that is configured":      {"KernelDeadlock", nil, sink.RefusedForeign},
		"a condition of another reason":  {"GpuXid", []corev1.NodeCondition{foreign}, sink.RefusedForeign},
		"no name":                        {"", nil, sink.RefusedName},
		"a digit first":                  {"1Check", nil, sink.RefusedName},
		"a separator":                    {"A;B", nil, sink.RefusedName},
		"a newline at the end":           {"Ready\n", nil, sink.RefusedName},
		"a slash":                        {"nvidia.com/gpu", nil, sink.RefusedName},
		"64 bytes":                       {strings.Repeat("A", 64), nil, sink.RefusedName},
		"10 KB":                          {strings.Repeat("A", 10<<10), nil, sink.RefusedName},
		"63 bytes":                       {strings.Repeat("A", 63), nil, sink.Written},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, fatal := range []bool{true, false} {
				plan := Decide(rules(), tc.current, []*healtheventv1.HealthEvent{event(func(e *healtheventv1.HealthEvent) { e.CheckName, e.IsFatal = tc.check, fatal })}, now())
				if want := tc.want; plan.Outcomes[0] != want && (fatal || tc.current == nil) {
					t.Errorf("fatal=%v: %s, want %s", fatal, plan.Outcomes[0], want)
				}
			}
		})
	}
}

func TestOnlySoManyConditions(t *testing.T) {
	t.Parallel()
	current := []corev1.NodeCondition{{Type: "Ready", Reason: "KubeletReady", Status: corev1.ConditionTrue}}
	named := func(i int) *healtheventv1.HealthEvent {
		return event(func(e *healtheventv1.HealthEvent) { e.CheckName = fmt.Sprint("Check", i) })
	}
	var events []*healtheventv1.HealthEvent
	for i := range 70 {
		events = append(events, named(i))
	}
	plan := Decide(rules(), current, events, now())
	if len(plan.Conditions) != 64 || plan.Outcomes[63] != sink.Written || plan.Outcomes[64] != sink.RefusedConditions {
		t.Fatalf("%d conditions, %v", len(plan.Conditions), plan.Outcomes)
	}
	again := Decide(rules(), append(current, plan.Conditions...), []*healtheventv1.HealthEvent{named(80), {CheckName: "Check5", IsHealthy: true}}, now())
	if diff := cmp.Diff([]sink.Outcome{sink.RefusedConditions, sink.Written}, again.Outcomes); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := Decide(Rules{}, nil, events[:1], now()).Outcomes[0]; got != sink.RefusedConditions {
		t.Errorf("the zero rules: %s", got)
	}
}

func TestFaultsThatAreNotFatalBecomeEvents(t *testing.T) {
	t.Parallel()
	plan := Decide(rules(), nil, []*healtheventv1.HealthEvent{
		event(func(e *healtheventv1.HealthEvent) { e.IsFatal = false }),
		event(func(e *healtheventv1.HealthEvent) {
			e.IsFatal, e.Message, e.Agent = false, "a\nb;c", strings.Repeat("x", 1000)
		}),
	}, now())
	want := []Event{
		{Index: 0, Reason: "GpuXidIsNotHealthy", Message: gpu0, Source: "monitor", At: now().Add(-time.Minute)},
		{Index: 1, Reason: "GpuXidIsNotHealthy", Message: strings.Replace(gpu0, "off the bus", "a b,c", 1), Source: strings.Repeat("x", 63), At: now().Add(-time.Minute)},
	}
	if diff := cmp.Diff(want, plan.Events); diff != "" || len(plan.Conditions) > 0 {
		t.Errorf("conditions %v (-want +got):\n%s", plan.Conditions, diff)
	}
}
