package nodebinding_test

import (
	"github.com/lanyard-k8s/lanyard/connector/nodebinding"
)

// The nodes and callers of the tests. own is the socket's node, and the node in the tokens presented to a deployment.
const (
	own      = "node-a"
	foreign  = "node-b"
	ownUID   = "uid-a"
	listed   = "system:serviceaccount:nvsentinel:csp-health-monitor"
	unlisted = "system:serviceaccount:gpu:monitor"
)

type event struct{ node string }

// events is a batch as the connector has it: pointers, some of them nil.
type events []*event

func (e events) Len() int { return len(e) }

func (e events) Node(i int) (string, bool) {
	if e[i] == nil {
		return "", false
	}
	return e[i].node, true
}

func (e events) Stamp(i int, name string) { e[i].node = name }

// absent stands for a nil event in a list of names.
const absent = "<nil>"

func batchOf(names ...string) events {
	out := make(events, len(names))
	for i, n := range names {
		if n != absent {
			out[i] = &event{node: n}
		}
	}
	return out
}

func (e events) names() []string {
	out := make([]string, len(e))
	for i := range e {
		out[i] = absent
		if e[i] != nil {
			out[i] = e[i].node
		}
	}
	return out
}

func socket() nodebinding.Rules {
	return nodebinding.Rules{Role: nodebinding.Socket, OwnNode: own, CrossNode: nodebinding.NewAccounts(listed)}
}

func failOpen() nodebinding.Rules {
	r := socket()
	r.FailOpen = true
	return r
}

func deployment() nodebinding.Rules {
	return nodebinding.Rules{Role: nodebinding.Deployment, CrossNode: nodebinding.NewAccounts(listed), FailOpen: true}
}

func noToken() nodebinding.Evidence {
	return nodebinding.Evidence{Credential: nodebinding.CredentialAbsent}
}

func malformed() nodebinding.Evidence {
	return nodebinding.Evidence{Credential: nodebinding.CredentialMalformed}
}

func unusable() nodebinding.Evidence {
	return nodebinding.Evidence{Credential: nodebinding.CredentialUnusable}
}

// review is a token whose review ended with an error.
func review(code nodebinding.Code) nodebinding.Evidence {
	return nodebinding.Evidence{Credential: nodebinding.CredentialPresented, Review: code}
}

func detailed(code nodebinding.Code, detail nodebinding.Reason) nodebinding.Evidence {
	e := review(code)
	e.Detail = detail
	return e
}

// bound is a token of a pod on a node, unscheduled one of a pod without a node, onNode one that is bound to a node alone,
// and unbound one that carries nothing.
func bound(username, node string) nodebinding.Evidence {
	return verified(nodebinding.Identity{Username: username, PodUID: "pod-uid", Node: node, NodeUID: ownUID})
}

func unscheduled(username string) nodebinding.Evidence {
	return verified(nodebinding.Identity{Username: username, PodUID: "pod-uid"})
}

func onNode(username, node string) nodebinding.Evidence {
	return verified(nodebinding.Identity{Username: username, Node: node, NodeUID: ownUID})
}

func unbound(username string) nodebinding.Evidence {
	return verified(nodebinding.Identity{Username: username})
}

func verified(id nodebinding.Identity) nodebinding.Evidence {
	return nodebinding.Evidence{Credential: nodebinding.CredentialPresented, Review: nodebinding.OK, Identity: id}
}

// live adds what a watch knows about the claimed node.
func live(e nodebinding.Evidence, uid string) nodebinding.Evidence {
	e.LiveNodeUID = uid
	return e
}
