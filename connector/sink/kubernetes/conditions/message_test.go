package conditions

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	healtheventv1 "github.com/lanyard-k8s/lanyard/api/healthevent/v1"
	"github.com/lanyard-k8s/lanyard/api/wire"
)

// FuzzMessage says that whatever strings an event has, its fault is written as one entry that is read as the same fault,
// cleared by its own entities and by nobody else's, and that it changes no other fault's entry.
func FuzzMessage(f *testing.F) {
	for _, s := range []string{
		"", "79", "GPU", "0000:3b:00.0", "off the bus", ";", "\n", "a;b", "ErrorCode:1", "ErrorCode", "Recommended Action=NONE", "+3 more [0123456789ab]",
		"- x", "%", "%3B", "Recommended", "Action=", "\xff", "\u2028", "GPU:0 x", strings.Repeat("ErrorCode:", 300), strings.Repeat("語", 700), " Recommended Action= Action=",
	} {
		f.Add(s, s, s, s, s)
		f.Add("79", "GPU", "0", s, "")
		f.Add(s, "GPU", "0", "text", s)
		f.Add("79", s, s, "text", "")
	}
	f.Fuzz(func(t *testing.T, code, typ, value, message, action string) {
		e := &healtheventv1.HealthEvent{
			CheckName: "GpuXid", IsFatal: true, ErrorCode: []string{code, "1" + code}, Message: message, RecommendedAction: 27, CustomRecommendedAction: action,
			EntitiesImpacted: []*healtheventv1.Entity{{EntityType: typ, EntityValue: value}, {EntityType: "own", EntityValue: "mark"}},
		}
		entry := entryOf(e)
		if diff := cmp.Diff(entry, readEntry(entry.String())); diff != "" {
			t.Fatalf("an entry is read differently (-written +read):\n%s", diff)
		}
		if entry.Text != text(entry.Text) {
			t.Errorf("the text %q changes when it is escaped again", entry.Text)
		}
		other := Entry{Codes: []string{"48"}, Entities: []Entity{{"other", "one"}}, Text: "another fault", Action: "NONE"}
		plan := Decide(Rules{Most: 1}, []corev1.NodeCondition{standing(other.String())}, []*healtheventv1.HealthEvent{e}, time.Unix(1_700_000_000, 0))
		c := plan.Conditions[0]
		checkCondition(t, c)
		if diff := cmp.Diff(Faults{Entries: []Entry{other, entry}}, Parse(c.Message)); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
		mine := &healtheventv1.HealthEvent{CheckName: "GpuXid", IsHealthy: true, EntitiesImpacted: e.GetEntitiesImpacted()}
		cleared := Decide(Rules{Most: 1}, []corev1.NodeCondition{c}, []*healtheventv1.HealthEvent{mine}, time.Unix(1_700_000_000, 0))
		if got := Parse(cleared.Conditions[0].Message); !cmp.Equal(got, Faults{Entries: []Entry{other}}) {
			t.Errorf("after its entities are healthy %+v is left", got)
		}
		wrong := &healtheventv1.HealthEvent{CheckName: "GpuXid", IsHealthy: true, EntitiesImpacted: []*healtheventv1.Entity{{EntityType: "own", EntityValue: "mark"}, {EntityType: "no", EntityValue: "fault names it"}}}
		if plan := Decide(Rules{Most: 1}, []corev1.NodeCondition{c}, []*healtheventv1.HealthEvent{wrong}, time.Unix(1_700_000_000, 0)); len(plan.Conditions) > 0 {
			t.Errorf("it is cleared by entities that it does not name: %q", plan.Conditions[0].Message)
		}
	})
}

// checkCondition holds a condition to what every one must keep.
func checkCondition(t *testing.T, c corev1.NodeCondition) {
	t.Helper()
	suffix := wire.ReasonHealthySuffix
	if c.Status == corev1.ConditionTrue {
		suffix = wire.ReasonUnhealthySuffix
	}
	if c.Reason != string(c.Type)+suffix || len(c.Message) > messageMost || !utf8.ValidString(c.Message) || strings.ContainsAny(c.Message, "\n\r\x00") || c.Message == "" {
		t.Errorf("condition %+v", c)
	}
}

// FuzzParse says that any message of somebody else's is read to something that stays the same from then on.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"", ";", Healthy, gpu0 + ";" + gpu1 + ";", "+2 more [0123456789ab 0123456789ac]", "+0 more or so []", "+1 more [zz]", "ErrorCode: GPU: :", "%ZZ%41 x", strings.Repeat("a:b ", 500), strings.Repeat("x;", 600)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, message string) {
		once := Parse(message).Format()
		if len(once) > messageMost {
			t.Fatalf("%d bytes", len(once))
		}
		if again := Parse(once).Format(); again != once {
			t.Errorf("%q becomes %q", once, again)
		}
	})
}

// TestFaultsBeyondTheBound reports many faults, clears them one by one in another order, and wants the condition to be True
// until the last is gone, and False then.
func TestFaultsBeyondTheBound(t *testing.T) {
	t.Parallel()
	for _, n := range []int{2, 16, 40, 61} {
		var current []corev1.NodeCondition
		apply := func(e *healtheventv1.HealthEvent) {
			for _, c := range Decide(rules(), current, []*healtheventv1.HealthEvent{e}, now()).Conditions {
				checkCondition(t, c)
				current = []corev1.NodeCondition{c}
			}
		}
		uuid := func(i int) *healtheventv1.Entity {
			return entity("GPU", fmt.Sprintf("GPU-5f3c%04d-0000-0000-0000-000000000000", i))
		}
		for i := range n {
			apply(event(func(e *healtheventv1.HealthEvent) { e.EntitiesImpacted = []*healtheventv1.Entity{uuid(i)} }))
		}
		for i := range n {
			if current[0].Status != corev1.ConditionTrue {
				t.Fatalf("of %d faults %d are left and the condition is %s: %s", n, n-i, current[0].Status, current[0].Message)
			}
			apply(healthy(uuid((i*7 + 3) % n)))
		}
		if n <= 40 && current[0].Status != corev1.ConditionFalse {
			t.Errorf("all %d faults are cleared and the condition says %q", n, current[0].Message)
		}
		apply(healthy())
		if current[0].Status != corev1.ConditionFalse {
			t.Errorf("the check is healthy and the condition says %q", current[0].Message)
		}
	}
}

func TestAFaultThatIsNotShownIsShownWhenThereIsRoom(t *testing.T) {
	t.Parallel()
	var f Faults
	for i := range 30 {
		f.add(Entry{Codes: []string{"79"}, Entities: []Entity{{"GPU", fmt.Sprint(i)}}, Text: strings.Repeat("x", 60), Action: "NONE"})
	}
	f = Parse(f.Format())
	if len(f.Hidden) == 0 || len(f.Entries)+len(f.Hidden) != 30 {
		t.Fatalf("%d shown, %d not", len(f.Entries), len(f.Hidden))
	}
	shown := len(f.Entries)
	f.add(Entry{Codes: []string{"79"}, Entities: []Entity{{"GPU", "29"}}, Text: "short", Action: "NONE"})
	f.clear(Entry{Entities: []Entity{{"GPU", "0"}}})
	f = Parse(f.Format())
	if len(f.Entries) != shown || len(f.Entries)+len(f.Hidden) != 29 || f.Entries[shown-1].Text != "short" {
		t.Errorf("%d shown, %d not: %v", len(f.Entries), len(f.Hidden), f.Entries[shown-1])
	}
	f.clear(Entry{Entities: []Entity{{"GPU", "28"}}, Codes: []string{"48"}})
	if len(f.Entries)+len(f.Hidden) != 29 {
		t.Error("a hidden fault is cleared by another code")
	}
	f.clear(Entry{Entities: []Entity{{"GPU", "28"}}, Codes: []string{"79"}})
	if len(f.Entries)+len(f.Hidden) != 28 {
		t.Error("a hidden fault is not cleared by its entities and code")
	}
}
