package sink

// Outcome is what became of one event in one sink; its text is the label "outcome" of the metrics. An outcome that begins
// with "refused" is about an event that the sink will not take; the other sinks still get it.
type Outcome string

// The outcomes.
const (
	// Written: it is where the sink takes it.
	Written Outcome = "written"
	// Unchanged: it says what is already there.
	Unchanged Outcome = "unchanged"
	// Duplicate: the same event of the same call has been stored before.
	Duplicate Outcome = "duplicate"
	// Skipped: its processing strategy keeps it from this sink.
	Skipped Outcome = "skipped"
	// RefusedName: its check's name cannot name a condition.
	RefusedName Outcome = "refused_name"
	// RefusedForeign: its check's name is a condition of somebody else's.
	RefusedForeign Outcome = "refused_foreign"
	// RefusedNode: it is about another node than the connector's own, or about none.
	RefusedNode Outcome = "refused_node"
	// RefusedConditions: the node has as many conditions of ours as it may have.
	RefusedConditions Outcome = "refused_conditions"
	// RefusedRate: the node has got as many Events as it may get in a minute.
	RefusedRate Outcome = "refused_rate"
	// RefusedByServer: whoever the sink speaks to does not take it, and never will.
	RefusedByServer Outcome = "refused_by_server"
)

// Outcomes lists every outcome once, for metrics and documents.
func Outcomes() []Outcome {
	return []Outcome{
		Written, Unchanged, Duplicate, Skipped, RefusedName, RefusedForeign, RefusedNode, RefusedConditions, RefusedRate,
		RefusedByServer,
	}
}

// Report counts events by what became of them. The nil Report can be read and not be counted in.
type Report map[Outcome]int

// Refused is the number of events that will not get where the sink takes them, other than by their own wish.
func (r Report) Refused() int {
	n := 0
	for o, count := range r {
		if o != Written && o != Unchanged && o != Duplicate && o != Skipped {
			n += count
		}
	}
	return n
}
