package conditions

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	healtheventv1 "github.com/lanyard-k8s/lanyard/api/healthevent/v1"
	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/connector/sink"
)

// Rules say which conditions are ours. The zero Rules allow no new condition.
type Rules struct {
	// Foreign are condition types of somebody else's, besides the kubelet's.
	Foreign []string
	// Most is how many conditions of ours a node may have.
	Most int
}

// Plan is what a batch comes to on one node.
type Plan struct {
	// Conditions are those that change, each in full, in the order in which they are first changed.
	Conditions []corev1.NodeCondition
	// Events are the core Events to record, in the order of the batch.
	Events []Event
	// Outcomes says of each event of the batch what becomes of it, by its index. It is Written for those that are in
	// Conditions or Events.
	Outcomes []sink.Outcome
}

// Event is a core Event about the node.
type Event struct {
	// Index is the event's place in the batch.
	Index int
	// Reason and Message are the core Event's, Source is the publisher.
	Reason, Message, Source string
	// At is when the publisher made it.
	At time.Time
}

// sourceMost bounds a publisher's name in an Event.
const sourceMost = 63

// Decide works out what events, all about one node, change about its conditions. now is the time; an event from the future
// counts as of now. The current conditions are not changed.
func Decide(r Rules, current []corev1.NodeCondition, events []*healtheventv1.HealthEvent, now time.Time) Plan {
	d := decision{rules: r, current: current, plan: Plan{Outcomes: make([]sink.Outcome, len(events))}}
	for i, e := range events {
		d.plan.Outcomes[i] = d.take(i, e, now)
	}
	for _, c := range d.working {
		was := find(current, c.Type)
		if was != nil && was.Status == c.Status {
			c.LastTransitionTime = was.LastTransitionTime // what went there and back within the batch is no flip
		}
		if was == nil || !sameToSee(*was, c) {
			d.plan.Conditions = append(d.plan.Conditions, c)
		}
	}
	return d.plan
}

// decision is Decide at work.
type decision struct {
	rules   Rules
	current []corev1.NodeCondition
	working []corev1.NodeCondition // those that events of this batch are about
	plan    Plan
}

// take decides about one event.
func (d *decision) take(i int, e *healtheventv1.HealthEvent, now time.Time) sink.Outcome {
	if o := d.rules.Refuse(e); o != "" {
		return o
	}
	name, at := e.GetCheckName(), timeOf(e, now)
	if !e.GetIsHealthy() && !e.GetIsFatal() {
		d.plan.Events = append(d.plan.Events, Event{
			Index: i, Reason: name + wire.ReasonUnhealthySuffix, Message: cut(entryOf(e).String(), messageMost),
			Source: cut(text(e.GetAgent()), sourceMost), At: at,
		})
		return sink.Written
	}
	c, o := d.condition(name)
	if o != "" {
		return o
	}
	next := change(*c, e, at)
	o = sink.Unchanged
	if !sameToSee(*c, next) {
		o = sink.Written
	}
	*c = next
	return o
}

// condition returns the condition to change: the one this batch has changed already, the node's, or a new one.
func (d *decision) condition(name string) (*corev1.NodeCondition, sink.Outcome) {
	typ := corev1.NodeConditionType(name)
	if c := find(d.working, typ); c != nil {
		return c, ""
	}
	c := corev1.NodeCondition{Type: typ}
	switch was := find(d.current, typ); {
	case was != nil && !ours(*was):
		return nil, sink.RefusedForeign
	case was != nil:
		c = *was
	case d.count() >= d.rules.Most:
		return nil, sink.RefusedConditions
	}
	d.working = append(d.working, c)
	return &d.working[len(d.working)-1], ""
}

// count is the number of conditions of ours, those that this batch adds included.
func (d *decision) count() int {
	n := 0
	for _, c := range d.current {
		if ours(c) {
			n++
		}
	}
	for _, c := range d.working {
		if find(d.current, c.Type) == nil {
			n++
		}
	}
	return n
}

func find(in []corev1.NodeCondition, typ corev1.NodeConditionType) *corev1.NodeCondition {
	if i := slices.IndexFunc(in, func(c corev1.NodeCondition) bool { return c.Type == typ }); i >= 0 {
		return &in[i]
	}
	return nil
}

// change applies a healthy or fatal event to a condition.
func change(c corev1.NodeCondition, e *healtheventv1.HealthEvent, at time.Time) corev1.NodeCondition {
	var known Faults
	if c.Status == corev1.ConditionTrue {
		known = Parse(c.Message)
	}
	if e.GetIsHealthy() {
		known.clear(entryOf(e))
	} else {
		known.add(entryOf(e))
	}
	next := c
	next.Status, next.Reason, next.Message = corev1.ConditionFalse, string(c.Type)+wire.ReasonHealthySuffix, Healthy
	if !known.Empty() {
		next.Status, next.Reason, next.Message = corev1.ConditionTrue, string(c.Type)+wire.ReasonUnhealthySuffix, known.Format()
	}
	if c.LastHeartbeatTime.Time.Before(at) {
		next.LastHeartbeatTime = metav1.NewTime(at)
	}
	if next.Status != c.Status {
		next.LastTransitionTime = metav1.NewTime(at)
	}
	return next
}

// sameToSee says whether nothing that anybody would look at differs. The heartbeat alone is not worth a write.
func sameToSee(a, b corev1.NodeCondition) bool {
	return a.Status == b.Status && a.Reason == b.Reason && a.Message == b.Message
}

// timeOf is when an event was made: what it says itself, unless that is nothing or still to come. Conditions have whole seconds.
func timeOf(e *healtheventv1.HealthEvent, now time.Time) time.Time {
	if t := e.GetGeneratedTimestamp(); t != nil && t.CheckValid() == nil && t.GetSeconds() > 0 && t.AsTime().Before(now) {
		return t.AsTime().Truncate(time.Second)
	}
	return now.UTC().Truncate(time.Second)
}
