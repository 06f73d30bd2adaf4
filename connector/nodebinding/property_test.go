package nodebinding_test

import (
	"strings"
	"testing"

	"github.com/lanyard-k8s/lanyard/connector/nodebinding"
)

// drawn is a call made from a fuzzer's bytes.
type drawn struct {
	rules nodebinding.Rules
	from  nodebinding.Evidence
	mode  nodebinding.Mode
	names []string
}

// draw reads a call: small numbers choose what comes from small sets, the strings are free.
func draw(shape []byte, node, username, claim, uid, names string) drawn {
	at := func(i, n int) int {
		if i >= len(shape) {
			return 0
		}
		return int(shape[i]) % n
	}
	d := drawn{
		rules: nodebinding.Rules{
			Role: []nodebinding.Role{nodebinding.Socket, nodebinding.Deployment}[at(0, 2)], OwnNode: node,
			CrossNode: nodebinding.NewAccounts(listed), FailOpen: at(1, 2) == 1, LenientLiveness: at(2, 2) == 1,
		},
		from: nodebinding.Evidence{
			Credential: nodebinding.Credential(at(3, 6)), Review: nodebinding.Code(at(4, 19)), LiveNodeUID: uid,
			Identity: nodebinding.Identity{Username: username, PodUID: strings.Repeat("p", at(5, 2)), Node: claim, NodeUID: uid},
		},
		mode:  []nodebinding.Mode{nodebinding.Enforce, nodebinding.Audit, ""}[at(6, 3)],
		names: strings.Split(names, ","),
	}
	return d
}

// FuzzProperties states what must hold for every call, whatever the strings are.
func FuzzProperties(f *testing.F) {
	f.Add([]byte{0, 0, 0, 4, 1, 1, 0}, own, unlisted, own, ownUID, own+",,"+absent)
	f.Add([]byte{0, 0, 0, 4, 1, 1, 1}, own, unlisted, own, ownUID, foreign+",")
	f.Add([]byte{1, 1, 0, 4, 1, 1, 0}, "", unlisted, foreign, ownUID, foreign+",,"+own)
	f.Add([]byte{0, 1, 1, 4, 14 + 1, 0, 0}, own, "", "", "", ","+foreign)
	f.Add([]byte{0, 0, 0, 4, 1, 1, 1}, own, listed, own, ownUID, foreign+",")
	f.Add([]byte{1, 0, 0, 4, 1, 1, 1}, "", listed, own, ownUID, "Node-A,node-a.")
	f.Add([]byte{0, 0, 0, 1, 0, 0, 0}, "", "", "", "", ",")
	f.Fuzz(func(t *testing.T, shape []byte, node, username, claim, uid, names string) {
		c := draw(shape, node, username, claim, uid, names)
		batch := batchOf(c.names...)
		decision := nodebinding.Decide(c.rules, c.from)
		holds(t, c, decision, nodebinding.Apply(decision, c.mode, batch), batch.names())
	})
}

func holds(t *testing.T, c drawn, d nodebinding.Decision, o nodebinding.Outcome, after []string) {
	t.Helper()
	pin := c.rules.OwnNode
	if c.rules.Role == nodebinding.Deployment {
		pin = c.from.Identity.Node
	}
	stamped, audit := 0, c.mode == nodebinding.Audit && c.rules.Role == nodebinding.Socket
	for i, name := range after {
		if before := c.names[i]; before != name {
			stamped++
			if before != "" || name != pin || !o.Allowed() || o.Scope != nodebinding.NodeLocal {
				t.Errorf("event %d: the name %q became %q, code %v, scope %q", i, before, name, o.Code, o.Scope)
			}
		}
		if o.Allowed() && o.Scope == nodebinding.NodeLocal && name == "" {
			t.Errorf("event %d left without a name", i)
		}
		if o.Allowed() && o.Scope != nodebinding.CrossNode && !audit && name != absent && name != pin {
			t.Errorf("event %d: a caller that is not listed got another node, %q", i, name)
		}
	}
	switch {
	case stamped != o.Stamped:
		t.Errorf("%d names stamped, %d counted", stamped, o.Stamped)
	case o.Scope == nodebinding.CrossNode && (c.from.Identity.Username != listed || o.Degraded || c.from.Identity.PodUID == "" || c.from.Identity.Node == ""):
		t.Errorf("cross-node scope for %+v", c.from)
	case o.Allowed() && (o.Scope == "" || d.Role == ""):
		t.Errorf("allowed without a scope: %+v", o)
	case o.Allowed() == (o.Reason != "") && o.Code != nodebinding.Internal:
		t.Errorf("code %v with the reason %q", o.Code, o.Reason)
	case o.Degraded && o.Code == nodebinding.PermissionDenied:
		t.Error("a degraded caller was refused for good")
	case o.Outage && o.Code != nodebinding.Unavailable:
		t.Errorf("an outage answered with %v", o.Code)
	}
}
