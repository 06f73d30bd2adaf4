package webhook

import (
	"fmt"

	"github.com/lanyard-k8s/lanyard/api/wire"
	"github.com/lanyard-k8s/lanyard/mutate"
)

// Decide is one of the pure functions that answer a request.
type Decide func(mutate.Request, mutate.Rules) (mutate.Decision, error)

// Rooms are the four decisions that the front desk hands requests to.
type Rooms struct {
	Pod      Decide // what a pod gets
	Stamp    Decide // the creator stamp of the other stamped kinds
	Verify   Decide // a finished pod
	Template Decide // the pod templates of a workload
}

// hook is one URL path. Its name is the metric label.
type hook struct {
	name     string
	path     string
	entry    mutate.Entry
	mutating bool
}

func hooks() []hook {
	return []hook{
		{"mutate/job", wire.PathMutateJob, mutate.EntryJob, true},
		{"mutate/publisher", wire.PathMutatePublisher, mutate.EntryPublisher, true},
		{"mutate/listed", wire.PathMutateListed, mutate.EntryListed, true},
		{"validate/job", wire.PathValidateJob, mutate.EntryJob, false},
		{"validate/publisher", wire.PathValidatePublisher, mutate.EntryPublisher, false},
		{"validate/listed", wire.PathValidateListed, mutate.EntryListed, false},
		{"validate/template", wire.PathValidateTemplate, mutate.EntryTemplate, false},
	}
}

const (
	podResource = "pods"
	ephemeral   = "ephemeralcontainers"
)

// route picks the room for a review. A combination that our own webhook configuration never registers is an error, on
// every path: it means that somebody registered this server for something that no rule here is written for, and letting
// that through unlooked would be worse than saying so.
func (d *Desk) route(h hook, rv *review) (Decide, error) {
	if missing := rv.missingObject(); missing != "" {
		return nil, malformed("%s is missing", missing)
	}
	pod := rv.objectKind == (mutate.GroupKind{Kind: "Pod"}) && rv.group == "" && rv.resource == podResource
	plain, op := rv.subresource == "", mutate.Operation(rv.operation)
	switch {
	case h.entry == mutate.EntryTemplate:
		if !pod && plain && (op == mutate.Create || op == mutate.Update) {
			return d.rooms.Template, nil
		}
	case pod && h.mutating:
		if plain && op == mutate.Create {
			return d.rooms.Pod, nil
		}
	case pod:
		if (plain && op == mutate.Create) || (rv.subresource == ephemeral && op == mutate.Update) {
			return d.rooms.Verify, nil
		}
	case h.mutating && h.entry == mutate.EntryJob && d.stamped[rv.objectKind]:
		if plain && (op == mutate.Create || op == mutate.Update) {
			return d.rooms.Stamp, nil
		}
	}
	return nil, &unexpectedError{hook: h, review: rv}
}

// missingObject names what an operation cannot be judged without.
func (rv *review) missingObject() string {
	switch op := mutate.Operation(rv.operation); {
	case (op == mutate.Create || op == mutate.Update) && rv.object == nil:
		return "request.object"
	case op == mutate.Update && rv.oldObject == nil:
		return "request.oldObject"
	}
	return ""
}

// unexpectedError is a request that the chart's webhook configuration does not send to this path.
type unexpectedError struct {
	hook   hook
	review *review
}

// Error names what came and where, and what to do about it.
func (e *unexpectedError) Error() string {
	what := e.review.resource
	if e.review.group != "" {
		what += "." + e.review.group
	}
	if e.review.subresource != "" {
		what += "/" + e.review.subresource
	}
	return fmt.Sprintf("Lanyard's webhook has no rule for %s of %s (kind %s) on path %s, and its own configuration never sends that here; "+
		"restore the webhook configuration from the chart, or add the kind to jobKinds",
		clip(e.review.operation, 16), clip(what, 128), clip(e.review.objectKind.Kind, 64), e.hook.path)
}
