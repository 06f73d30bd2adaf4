// Package preview says, without a cluster, what the webhook would do with a manifest: the object as it would be admitted,
// or every reason for which it would be refused. It calls the same functions as the webhook, in the order in which the API
// server calls the webhook's entries, and reads nothing but the manifest and the rules. What policies in the API server
// add (who may create, who may label a namespace) needs a cluster and is not part of it.
package preview

import (
	"github.com/lanyard-k8s/lanyard/mutate"
	"github.com/lanyard-k8s/lanyard/mutate/violation"
)

// DefaultUsername stands for the person in the creator stamp while nobody was named.
const DefaultUsername = "<you>"

// Verdict is what would become of a document. The zero value is "not decided".
type Verdict string

const (
	// Unchanged: the webhook adds nothing and refuses nothing.
	Unchanged Verdict = "unchanged"
	// Changed: the webhook lets the object in and adds to it, or to the pods made from it.
	Changed Verdict = "changed"
	// Refused: the webhook refuses the object, or the pods made from it.
	Refused Verdict = "refused"
	// Unreadable: the document is not an object that an API server would take.
	Unreadable Verdict = "unreadable"
)

// Result is the answer for one document. After is the object as admitted (JSON); Patch leads there from Document.Raw.
// Violations hold every fault, those let through by mode audit included. Notes explain what was not looked at.
type Result struct {
	Document   Document
	Verdict    Verdict
	Roles      []mutate.Role
	Patch      []mutate.Op
	After      []byte
	Violations []violation.Violation
	More       int // violations beyond those that are listed
	Warnings   []string
	Notes      []string
	Err        error
}

// Kind is a job kind or one of its parents: the creator stamp is written on it, and Creators, when known, are the
// usernames of the controllers that make its pods.
type Kind struct {
	mutate.GroupKind
	Creators []string
}

// Previewer answers for documents. Rules are the webhook's; Who says which entries a document reaches; Namespace is
// taken for documents that name none; Username is the creator; Stamped are the kinds besides pods that bear the stamp.
type Previewer struct {
	Rules     mutate.Rules
	Who       Who
	Namespace string
	Username  string
	Stamped   []Kind
}

// Preview answers for one document.
func (p Previewer) Preview(d Document) Result {
	a := &admission{Previewer: p, document: d, namespace: d.Namespace, object: d.Raw}
	if a.namespace == "" {
		a.namespace = p.Namespace
	}
	var err error
	if d.Kind == podKind {
		err = a.pod()
	} else {
		err = a.workload()
	}
	if err != nil {
		return Result{Document: d, Verdict: Unreadable, After: d.Raw, Err: err}
	}
	return a.result()
}
