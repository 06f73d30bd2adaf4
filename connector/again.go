package connector

import (
	"fmt"

	"github.com/lanyard-k8s/lanyard/connector/nodebinding"
	"github.com/lanyard-k8s/lanyard/connector/sink"
)

// Again returns what decides a second time about a batch that comes out of the spool: under the rules of today, and from
// what the record says of its caller. It changes nothing, so that a blank name, which no batch is kept with, is refused.
func Again(r nodebinding.Rules, m nodebinding.Mode) func(sink.Batch) error {
	r.RequireToken = false // what was taken in while the review was away has no caller either
	return func(b sink.Batch) error {
		evidence := nodebinding.Evidence{Credential: nodebinding.CredentialAbsent}
		if b.Caller.Verified() {
			evidence = nodebinding.Evidence{Credential: nodebinding.CredentialPresented, Review: nodebinding.OK, Identity: nodebinding.Identity{
				Username: b.Caller.Username, PodUID: b.Caller.PodUID, Node: b.Caller.Node, NodeUID: b.Caller.NodeUID,
			}}
		}
		blank := false
		o := nodebinding.Apply(nodebinding.Decide(r, evidence), m, kept{events: b.Events, blank: &blank})
		switch {
		case !o.Allowed():
			return fmt.Errorf("the rules of today refuse it: %s", o.Reason)
		case blank:
			return fmt.Errorf("an event names no node")
		case b.Scope == nodebinding.CrossNode && o.Scope != nodebinding.CrossNode:
			return fmt.Errorf("its caller may no longer name other nodes")
		}
		return nil
	}
}

// kept is a batch that is not stamped again.
type kept struct {
	events
	blank *bool
}

// Stamp notes that there was something to stamp.
func (k kept) Stamp(int, string) { *k.blank = true }
