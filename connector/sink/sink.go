// Package sink holds the words that the connector and its sinks share: the accepted batch, what a sink is, and what can
// come of a delivery. The sinks themselves are the packages below: log, store, forward and kubernetes.
//
// A batch is handed to several sinks at once. Nobody changes it: a sink that needs another form of an event clones it.
package sink

import (
	"context"
	"time"

	healtheventv1 "github.com/lanyard-k8s/lanyard/api/healthevent/v1"
	"github.com/lanyard-k8s/lanyard/connector/nodebinding"
)

// Sink takes accepted batches somewhere. Its methods are called by several goroutines at once.
type Sink interface {
	// Name is the sink's name, one of Names.
	Name() Name
	// Deliver returns when the batch is where the sink takes it, or will not get there. The report counts what became of
	// the events, whatever the error. A nil error means that the sink has dealt with the whole batch, be it that it refused some of
	// its events; Classify says of an error whether the same batch is to be offered again. A batch may be offered
	// again after it was delivered, since a crash can come in between.
	Deliver(ctx context.Context, b Batch) (Report, error)
}

// Name names a sink: the key under "sinks" in the settings, and the label "sink" of the metrics.
type Name string

// The sinks.
const (
	Log        Name = "log"
	Kubernetes Name = "kubernetes"
	Store      Name = "store"
	Forward    Name = "forward"
)

// Names lists every sink once, for metrics and documents.
func Names() []Name { return []Name{Log, Kubernetes, Store, Forward} }

// Batch is what one accepted call carried, and who made it. It is never changed after NewBatch.
type Batch struct {
	// Events are the call's events with their node names filled in; none of them is nil.
	Events []*healtheventv1.HealthEvent
	// Caller is who made the call, as far as that was verified.
	Caller Caller
	// User is the kernel's user of the other end of a Unix socket, as "user 1000"; empty where it is not known. It is a hint: user namespaces
	// change it, and whoever may run as several users has several.
	User string
	// Scope is what the caller was allowed to name. When node binding is off nobody has decided; the scope is then empty.
	Scope nodebinding.Scope
	// Degraded marks a scope that is a guess, because the review was unavailable.
	Degraded bool
	// Key is the call's idempotency key; empty when the caller gave none.
	Key string
	// Received is when the call was accepted.
	Received time.Time
}

// Publisher is whose order a batch stands in: its account's if that is verified, else that of the user that it came from. Processes without
// a token are told apart by nothing else, and one of them that must wait would have all the others wait.
func (b Batch) Publisher() string {
	if b.Caller.Verified() {
		return b.Caller.Username
	}
	return b.User
}

// NewBatch returns a batch of the events that there are: a nil event is none. The slice and its events belong to the batch
// from now on.
func NewBatch(events []*healtheventv1.HealthEvent, c Caller, scope nodebinding.Scope, received time.Time) Batch {
	kept := make([]*healtheventv1.HealthEvent, 0, len(events))
	for _, e := range events {
		if e != nil {
			kept = append(kept, e)
		}
	}
	return Batch{Events: kept, Caller: c, Scope: scope, Received: received}
}

// Caller is a verified caller. The zero Caller presented no token, or one that could not be verified.
type Caller struct {
	Username     string // system:serviceaccount:<namespace>:<name>
	PodName      string
	PodUID       string
	Node         string // the node that the token names
	NodeUID      string
	CredentialID string // names the token, "JTI=<uuid>"; it is no secret
}

// Verified says whether the caller's token was reviewed and accepted.
func (c Caller) Verified() bool { return c.Username != "" }
