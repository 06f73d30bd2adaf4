package nodebinding

import "strconv"

// Batch is what a caller sent, seen through its events' node names alone.
type Batch interface {
	// Len is the number of events.
	Len() int
	// Node returns the node name of event i; present is false when there is no event at that place.
	Node(i int) (name string, present bool)
	// Stamp sets the node name of event i. It is called only for blank names, after the whole batch has passed.
	Stamp(i int, name string)
}

// noEvent is Outcome.Event when the outcome is not about one event.
const noEvent = -1

// Outcome is all that is left to do about a call: what to answer and what to count. Only Code OK lets the batch go on.
type Outcome struct {
	// Code is what to answer with.
	Code Code
	// Reason is why the batch is refused, empty when it is not.
	Reason Reason
	// Event is the index of the first event that is refused, or that enforce would refuse; -1 when there is none.
	Event int
	// Outage asks for the detail by which publishers tell an outage of the review's backend (google.rpc.ErrorInfo).
	Outage bool
	// Scope counts as a decision when not empty.
	Scope Scope
	// Degraded marks a scope that is a guess.
	Degraded bool
	// Claim counts as a node claim's result when not empty.
	Claim Claim
	// CallerViolation and BatchViolation count as violations when not empty, whether the batch goes on or not.
	CallerViolation Reason
	BatchViolation  Reason
	// Stamped is the number of blank names that were filled in.
	Stamped int
}

// Allowed says whether the batch may go on.
func (o Outcome) Allowed() bool { return o.Code == OK }

// Message is a fixed sentence for the caller, with the event's index where the outcome is about one. It never repeats
// what the caller sent.
func (o Outcome) Message() string {
	switch {
	case o.Allowed():
		return ""
	case o.Event == noEvent:
		return o.Reason.sentence()
	case o.Degraded:
		return "event " + strconv.Itoa(o.Event) + ": names another node, and the token cannot be checked at the moment; try again"
	default:
		return "event " + strconv.Itoa(o.Event) + ": " + o.Reason.sentence()
	}
}

// Apply holds a batch to a decision. In audit, which only the socket role knows, a violation is counted and the batch goes
// on; a blank name from a cross-node caller is refused all the same, since nothing downstream can handle it.
func Apply[B Batch](d Decision, m Mode, batch B) Outcome {
	o := Outcome{
		Code: d.Code, Reason: d.Violation, Event: noEvent, Outage: d.Outage, Scope: d.Scope, Degraded: d.Degraded,
		Claim: d.Claim, CallerViolation: d.Violation,
	}
	audit := m == Audit && d.Role == Socket
	switch {
	case m == Disabled && d.Role == Socket:
		return Outcome{Code: OK, Event: noEvent}
	case m == Disabled:
		return Outcome{Code: Internal, Event: noEvent}
	case o.Scope == "" && audit && o.CallerViolation != "":
		o.Code, o.Scope = OK, NodeLocal
	}
	switch {
	case o.Code == OK && o.Scope == CrossNode && !o.Degraded:
		return requireNames(o, batch)
	case o.Code == OK && o.Scope == NodeLocal && d.Node != "":
		return pin(o, d.Node, audit, batch)
	case o.Code == OK || o.Code == Undecided || o.CallerViolation == "":
		return Outcome{Code: Internal, Event: noEvent} // a decision that Decide does not make
	}
	return o
}

// requireNames passes a batch in which every event names its node.
func requireNames[B Batch](o Outcome, batch B) Outcome {
	for i := range batch.Len() {
		if name, present := batch.Node(i); present && name == "" {
			o.Code, o.Reason, o.BatchViolation, o.Event = InvalidArgument, MissingNodeName, MissingNodeName, i
			return o
		}
	}
	return o.pass()
}

// pin passes a batch in which no event names another node, and stamps the blank ones.
func pin[B Batch](o Outcome, node string, audit bool, batch B) Outcome {
	for i := range batch.Len() {
		name, present := batch.Node(i)
		if !present || name == "" || name == node {
			continue
		}
		if o = o.foreign(i); !audit {
			return o
		}
		break
	}
	for i := range batch.Len() {
		if name, present := batch.Node(i); present && name == "" {
			batch.Stamp(i, node)
			o.Stamped++
		}
	}
	return o.pass()
}

// foreign notes that event i names another node. A degraded caller might be a listed one, so that it is asked to try again
// and not counted among those whom an operator suspects of abuse.
func (o Outcome) foreign(i int) Outcome {
	o.Event = i
	if o.Degraded {
		o.Code, o.Reason, o.Outage = Unavailable, o.CallerViolation, false
		return o
	}
	o.Code, o.Reason, o.BatchViolation = PermissionDenied, NodeMismatch, NodeMismatch
	return o
}

func (o Outcome) pass() Outcome {
	o.Code, o.Reason, o.Outage = OK, "", false
	return o
}
